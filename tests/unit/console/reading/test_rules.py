"""Which pattern of rules holds for a tube."""

from beanpole.console.reading import rules


def test_pattern_for_a_tube() -> None:
    assert rules.pattern_for("mail-eu", ["*", "mail-*", "mail-e*"]) == "mail-e*"
    assert rules.pattern_for("mail-eu", ["mail-eu", "mail-eu*"]) == "mail-eu"
    assert rules.pattern_for("mail-eu", ["mail-eu*", "m*"]) == "mail-eu*"
    assert rules.pattern_for("files", ["*"]) == "*"
    assert rules.pattern_for("files", ["mail-*"]) is None

"""Which pattern of rules holds for a tube."""

from beanpole.console.reading import tubes


def test_pattern_for_a_tube() -> None:
    assert tubes.pattern_for("mail-eu", ["*", "mail-*", "mail-e*"]) == "mail-e*"
    assert tubes.pattern_for("mail-eu", ["mail-eu", "mail-eu*"]) == "mail-eu"
    assert tubes.pattern_for("mail-eu", ["mail-eu*", "m*"]) == "mail-eu*"
    assert tubes.pattern_for("files", ["*"]) == "*"
    assert tubes.pattern_for("files", ["mail-*"]) is None

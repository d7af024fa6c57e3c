"""The rules of tubes in the reference model: which tube has which, as text."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from tests.model.bookkeeping import Bookkeeping, Thing, listed


class Rules(Bookkeeping):
    """Setting rules and showing them."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.rule_texts: dict[str, str] = {}
        """Pattern: lines."""

    def pattern_of(self, tube: str) -> str | None:
        """The pattern from which a tube has its rules: its name, else the longest prefix."""
        prefixes = [each for each in self.rule_texts if each.endswith("*") and tube.startswith(each[:-1])]
        return tube if tube in self.rule_texts else max(prefixes, key=len, default=None)

    def rules_of(self, tube: str) -> dict[str, str]:
        """The rules of a tube by name."""
        lines = self.rule_texts.get(self.pattern_of(tube) or "", "").splitlines()
        return dict(line.split(": ", 1) for line in lines)

    def set_rules(self, session: Thing, pattern: str, text: str) -> str:
        self.rule_texts[pattern] = text
        return "RULES_SET"

    def drop_rules(self, session: Thing, pattern: str) -> str:
        return "NOT_FOUND" if self.rule_texts.pop(pattern, None) is None else "DROPPED"

    def get_rules(self, session: Thing, tube: str) -> str:
        pattern = self.pattern_of(tube)
        return "NOT_FOUND" if pattern is None else listed(f'---\npattern: "{pattern}"\n{self.rule_texts[pattern]}')

    def list_rules(self, session: Thing, options: dict[str, str]) -> str:
        found = [(pattern, text) for pattern, text in sorted(self.rule_texts.items()) if pattern > options["after"]]
        lines = ["\n  ".join([f'- pattern: "{pattern}"', *text.splitlines()]) + "\n" for pattern, text in found]
        return listed("---\n" + "".join(lines))

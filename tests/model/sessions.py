"""list-sessions and name-session in the reference model."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from typing import Any

from tests.model.bookkeeping import Bookkeeping, Thing, listed, seconds
from tests.model.explain import quoted


class Listing(Bookkeeping):
    """Who is connected."""

    def name_session(self, session: Thing, name: str) -> str:
        session.name = name
        return "NAMED"

    def list_sessions(self, session: Thing, options: dict[str, Any]) -> str:
        sessions = sorted(self.sessions + self.lost, key=lambda each: each.number)
        shown = [each for each in sessions if each.number > options.get("after", -1)][: options.get("limit", 1000)]
        text = "---\n" + "".join(self.about(each) for each in shown)
        return listed(text.encode().decode("latin-1"))

    def about(self, session: Thing) -> str:
        held = [job for job in self.jobs.values() if job.holder is session]
        heard = seconds(self.now - session.heard)
        lines = [
            *[f"number: {session.number}", f"name: {quoted(session.name)}", 'peer: ""'],
            *[f"since: {seconds(self.now - session.opened)}", f"last-command: {session.verb}"],
            *[f"last-command-age: {heard}", f"used: {session.used}"],
            *[f"watched: [{', '.join(session.watched[:20])}]", f"watched-count: {len(session.watched)}"],
            *([f"waiting: {heard}"] if session.waiting else []),
            *(["waits-for: notice"] if session.waiting and session.wants == "notice" else []),
            *([f"told: {session.told}"] if session.told else []),
            *([f"lost: {seconds(self.now - session.lost)}"] if session in self.lost else []),
            *([f"until: {seconds(session.ends - self.now)}"] if session in self.lost else []),
            f"jobs-held: {len(held)}",
            *([f"oldest-held: {seconds(self.now - min(job.held_since for job in held))}"] if held else []),
        ]
        return "- " + "\n  ".join(lines) + "\n"

"""keep-session in the reference model: sessions that lose their connections, and who returns by which token."""

from typing import Any

from tests.model.bookkeeping import NEVER, SECOND, Bookkeeping, Thing


class Keeping(Bookkeeping):
    """Who has which token."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.takes_clients = True
        self.resumed_count = 0
        self.lost: list[Thing] = []
        """Sessions without a connection that may return."""

        self.by_token: dict[str, Thing] = {}
        """Token: who said it last, of those that it still leads to."""

    def held_by(self, session: Thing) -> list[Thing]:
        """The jobs that a session holds, that first of which the time to run ends first."""
        held = [job for job in self.jobs.values() if job.holder is session]
        return sorted(held, key=lambda job: (job.until, job.id))

    def keep_session(self, session: Thing, seconds: int, token: str, options: dict[str, Any]) -> str:
        if session.token not in (None, token):
            return "NOT_KEPT"
        other = self.by_token.get(token)
        if seconds:
            session.token, session.keep, session.always = token, seconds, bool(options)
            self.by_token[token] = session
        else:
            self.forget_token(session)
            session.token = None
        if other and other is not session:
            self.take_over(session, other)
        ids = [job.id for job in self.held_by(session)] if session.token else []
        return " ".join(map(str, ["KEPT", len(ids), *ids]))

    def take_over(self, session: Thing, other: Thing) -> None:
        """The jobs of who had the token before are those of who has it now, if it keeps some."""
        for job in self.held_by(other) if session.token else []:
            job.holder, job.until = session, self.now + job.ttr * SECOND
        if other not in self.lost:
            self.end_older(other)
            return
        self.resumed_count += session.token is not None
        other.ends = self.now
        self.forget_lost()

    def end_older(self, session: Thing) -> None:
        """Nothing more is done for a connection whose client has come back; it is closed when it is its turn."""
        session.todo, session.waiting, session.quitting = [], False, True

    def forget_token(self, session: Thing) -> None:
        """A token leads to a session no more."""
        self.by_token = {token: each for token, each in self.by_token.items() if each is not session}

    def may_be_lost(self, session: Thing, *, by_server: bool) -> bool:
        """Whether a session whose connection ends may return."""
        can = session.token and not session.quitting and self.held_by(session)
        return bool(can and (by_server or session.always))

    def lose(self, session: Thing) -> None:
        """A session has no connection any more."""
        session.lost, session.used, session.watched, session.todo = self.now, "", [], []
        self.lost.append(session)
        self.wait_for(session)

    def wait_for(self, session: Thing) -> None:
        """No time counts while no client can return."""
        session.ends = self.now + session.keep * SECOND if self.takes_clients else NEVER
        for job in [] if self.takes_clients else self.held_by(session):
            job.until = NEVER

    def stop_taking_clients(self) -> None:
        self.takes_clients = False
        for session in self.lost:
            self.wait_for(session)

    def take_clients(self) -> None:
        self.takes_clients = True
        for session in self.lost:
            for job in self.held_by(session):
                job.until = self.now + max(job.ttr, session.keep) * SECOND
            self.wait_for(session)

    def over_at(self, job: Thing) -> int:
        """When the time of a job in its state is over, or that of its holder."""
        return int(min(job.until, job.holder.ends) if job.holder in self.lost else job.until)

    def forget_lost(self) -> None:
        """Who holds nothing any more will not return."""
        for session in [session for session in self.lost if not self.held_by(session)]:
            self.forget_token(session)
            self.lost.remove(session)

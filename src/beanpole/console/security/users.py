"""The users of a server as visitors of a console, which log in with their tokens.

Their file has only digests, with which nobody may make a cookie who can read it: so cookies are signed with a key that
nobody else has.
"""

import asyncio
import hmac
from collections.abc import Iterator

from beanpole.access.access import Found
from beanpole.access.watch import LOOK_S, AccessFiles, log_fault
from beanpole.console.sampler import Logger
from beanpole.console.security.tokens import Token
from beanpole.console.settings import Clock
from beanpole.errors import AccessError


class Users:
    """The users of a server, as its files are now."""

    def __init__(self, files: AccessFiles, key: bytes, logger: Logger, clock: Clock) -> None:
        self._files = files
        self._key = key
        self._logger = logger
        self._unix_s = clock.unix_s

    def token(self, text: str) -> Token | None:
        """The token that a text is; None: it is nobody's, or over."""
        found = self._files.access.by_token(text.encode(errors="replace"), self._unix_s())
        return None if found is None else self._of(found)

    def tokens_of(self, name: str) -> Iterator[Token]:
        """The tokens of a user that are not over."""
        access, now_s = self._files.access, self._unix_s()
        for each in access.tokens.values():
            if each.user == name and (found := access.by_digest(each.digest, now_s)) is not None:
                yield self._of(found)

    def _of(self, found: Found) -> Token:
        assert isinstance(found.evidence, bytes), "it is a digest"
        secret = hmac.digest(self._key, found.evidence, "sha256")
        return Token(found.user, secret, self._files.access.users[found.user])

    async def keep_reading(self) -> None:
        """Reads the files again whenever they have changed."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Reads them again if they have changed. If they are wrong, what was read before stays."""
        if not self._files.is_due(self._unix_s()):
            return
        read = await asyncio.to_thread(self._files.read)
        try:
            self._files.take(read, self._unix_s())
        except AccessError as error:
            log_fault(self._logger.log, "access", str(error))

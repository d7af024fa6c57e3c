"""How a client has come and who it is, of a server with users; and of a link, for whom it may speak.

A channel of a link is a client like any other: it has an entry of its own, which its link's makes. For all may speak a
front that the server has started, and a node that has shown the cluster's key; any other link for those whom `links` of
its user names. Nobody else says of a client whose it is: then it is the user of its link.
"""

from typing import TYPE_CHECKING

from beanpole.access.access import Found
from beanpole.access.tokens import digest_of
from beanpole.protocol.evidence import Evidence
from beanpole.server import limits
from beanpole.server.sources import source_of_peer

if TYPE_CHECKING:
    from beanpole.server.connection import Connection
    from beanpole.server.door import Door
    from beanpole.server.link import Link

AUTH = b"auth "
GREETING = b"beanpole-"  # with which a link begins
HELLO = b"\x16\x03"  # with which TLS begins
# The first lines of those who know new words: beaneater takes such a word for success.
NEW = (AUTH, GREETING, b"list-extensions\r\n")
WAIT, REFUSED, LINK = -1, -2, -3  # what `Entry.first_line` returns where it takes no bytes


class Entry:
    """How a client or a link has come, and who it is."""

    __slots__ = (
        "by",
        "connection",
        "door",
        "fault",
        "found",
        "is_link",
        "is_named",
        "is_shown",
        "is_trusted",
        "lack",
        "peer",
        "secure",
        "served",
        "since_s",
        "source",
        "user",
        "where",
    )

    def __init__(self, door: "Door", where: str, source: object, *, secure: bool, by: "Entry | None" = None) -> None:
        """`where` is its listener or front, for people; `secure`: nobody between can read what it sends."""
        self.door = door
        self.where = where
        self.source = source
        self.secure = secure
        self.by = by  # the link by which it has come
        self.peer = ""  # its address, as that says it
        self.served = door.served(secure)
        self.user = door.nobody
        self.found: Found | None = None
        self.fault = ""  # why it can be nobody, whatever it says
        self.lack = "its first line is no auth"  # why it is nobody without one
        self.is_shown = False  # its `auth` has come
        self.is_named = False  # its link says whose it is
        self.is_link = False  # no client, but a link
        self.is_trusted = False  # and one that may speak for all
        self.connection: Connection | Link | None = None
        self.since_s = door.wall()

    # --- its first line -----------------------------------------------------------------------------------------------

    def first_line(self, connection: "Connection", data: bytes) -> int:
        """Look at what a client has sent first, at most a byte more than a first line has.

        Return how many bytes of it are not for the decoder; WAIT: more must come; REFUSED: nothing of it runs; LINK: it
        is no client from here on. Behind an `auth` it is asked again.
        """
        if any(each != data and each.startswith(data) for each in NEW):
            return WAIT
        if data.startswith(GREETING) and self.by is None:
            return self.become_link(connection)
        if data.startswith(HELLO):  # without a line's end both would wait for each other
            self.fault = "it begins TLS where there is none"
        if self.fault or self.is_trusted:
            return self.refuse(connection, self.fault or "the key of nodes is for links", data)
        if data.startswith(AUTH) and self.secure and not self.is_shown:
            end = data.find(b"\r\n")
            if end >= 0:
                return self.authenticate(connection, data[len(AUTH) : end], end + 2)
            return WAIT if len(data) <= limits.FIRST_LINE_BYTES_MAX else self.refuse(connection, "its auth is too long")
        return 0 if self.found is not None else self.refuse(connection, self.lack, data)

    def authenticate(self, connection: "Connection", token: bytes, size: int) -> int:
        """Let the client be whose token it has; `size` is that of its line."""
        door, now_s = self.door, self.door.wall()
        digest = digest_of(token)
        if digest is None:
            return self.refuse(connection, "its auth has no token")
        self.is_shown = True
        if digest == door.node_digest and self.by is None:
            self.leave()
            self.become(None)
            self.is_trusted = True
            connection.belong_to(door.nobody)
            return size
        found = door.access.by_digest(digest, now_s)
        if found is None:
            return self.refuse(connection, door.access.fault_of(digest, now_s))
        if door.users[found.user] is not self.user and door.is_full(found.user):
            return self.refuse(connection, door.fullness(found.user))
        self.leave()
        self.become(found)
        self.is_named = False  # by itself from here on
        connection.belong_to(self.user)
        return size

    def refuse(self, connection: "Connection", why: str, data: bytes = AUTH) -> int:
        self.door.report("not authenticated", self, why)
        connection.refuse(knows_word=data.startswith(NEW))
        return REFUSED

    # --- who it is ----------------------------------------------------------------------------------------------------

    def become(self, found: Found | None) -> None:
        """Be somebody, or a stranger."""
        self.found = found
        if found is None:
            self.user = self.door.nobody
            self.door.crowd.add(self)
            return
        self.user = self.door.users[found.user]
        self.user.connection_count += 1
        if found.until is not None:
            self.door.end_by(found.until, self)

    def leave(self) -> None:
        """Be nobody any more."""
        if self.found is None:
            self.door.crowd.discard(self)
            return
        self.user.connection_count -= 1
        if self.found.until is not None:
            self.door.end_no_more(self.found.until, self)

    def closed(self) -> None:
        """Take note that the connection is closed."""
        self.leave()
        self.connection = None

    # --- a link -------------------------------------------------------------------------------------------------------

    def become_link(self, connection: "Connection") -> int:
        """Be no client any more. A stranger can't be a link."""
        if self.found is None and not self.is_trusted:
            return self.refuse(connection, self.fault or self.lack)
        self.door.crowd.discard(self)
        self.is_link = True
        return LINK

    def may_name(self, user: str) -> bool:
        """Whether this link may say that a client is that user; of its own it is whatever it says."""
        is_own = self.found is not None and user == self.found.user
        return self.is_trusted or is_own or user in self.names()

    def names(self) -> frozenset[str]:
        """Return for whom it may speak, by the files of now."""
        config = self.door.access.users.get(self.user.name.decode())
        return frozenset() if config is None else config.links

    def open_channel(self, shown: Evidence) -> "Entry":
        """Return the entry of a client that has come by this link, and of which its front says this."""
        door = self.door
        secure = self.secure and shown.way in {"tls", "unix"}
        # Of others the addresses may be made up: all whom it names are of one source when room is made.
        source = shown.uid or source_of_peer(shown.peer) if self.is_trusted else self.source
        entry = Entry(door, self.where, source, secure=secure, by=self)
        entry.peer = shown.peer
        found: Found | None = None
        if self.is_trusted or self.names():
            found, entry.fault = door.access.by_evidence(shown, door.wall())
        if found is not None:
            entry.is_named = self.may_name(found.user)
            if not entry.is_named:
                entry.lack = f"its link may not speak for {found.user}"
                found = None
        elif not entry.fault and self.found is not None:
            found = door.access.again(self.found, door.wall())
            entry.fault = "" if found is not None else "its link is nobody's any more"
        door.settle(entry, found)
        return entry

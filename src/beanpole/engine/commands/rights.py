"""The commands about users: auth, which comes too late here, and list-rights."""

from cython.cimports.beanpole.protocol.replies import Word


def auth(queue, now_ns, session, command):
    """auth: the first line of a connection alone says who it is."""
    return session.out.word(Word.BAD_FORMAT)


def list_rights(queue, now_ns, session, command):
    """list-rights: who the session is, what it may do, and what of its limits is used."""
    user = session.user
    lines: list = [
        b"user: %b" % user.name,
        b"admin: %b" % (b"true" if user.admin else b"false"),
        b"stats: %b" % (b"true" if user.stats else b"false"),
        *[
            b"%b: [%b]" % (right.encode(), b", ".join([b'"%b"' % each for each in patterns]))
            for right, patterns in user.grants.patterns.items()
        ],
        b"connections: %d" % user.connection_count,
    ]
    return session.out.text(b"---\n" + b"\n".join(lines) + b"\n")

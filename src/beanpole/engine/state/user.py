"""A user: whose a session is where connections have users, and what these may do.

Who a client is, and what a user may, is said from outside: one object stands for a user for as long as there is one of
its name, and what changes then is what it has.
"""

import cython
from cython.cimports.beanpole.protocol.rights import Grants, Right


@cython.cclass
class User:
    """One user. The fields stand in ``user.pxd``."""

    def __cinit__(self, name: bytes):
        self.name = name
        self.grants = Grants({})

    def grant(self, grants: Grants, admin: cython.bint, stats: cython.bint) -> None:
        """Set what the user may from here on; a session finds its rights again before its next command."""
        self.grants = grants
        self.admin = admin
        self.stats = stats or admin
        self.always = Right.STATS if self.stats else 0
        self.version += 1

    def rights(self, name, size):
        """Return the bits of its rights for a tube; of one that may see all numbers, Right.STATS among them."""
        return Right.ANY if self.admin else self.grants.bits(name, size) | self.always

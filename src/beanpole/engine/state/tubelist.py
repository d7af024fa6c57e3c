"""The tubes in the order of list-tubes, and its text in blocks.

The text of a block is kept until a tube of it comes or goes: for a million tubes the whole takes 0.1 s and 20 MB. So a
client never waits for more of it to be written than has changed.
"""

import cython
from cython.cimports.beanpole.engine.state.tube import Tube

from beanpole.engine import limits
from beanpole.engine.commands import stats

TUBES_PER_BLOCK = cython.declare(cython.Py_ssize_t, limits.TUBES_PER_BLOCK)


@cython.cclass
class TubeList:
    """Every tube of an engine, each of which knows its index."""

    def __cinit__(self):
        self.tubes = []
        self.texts = []

    def add(self, tube):
        """Append a tube. The text of a block is written when its last tube comes."""
        tube.list_index = len(self.tubes)
        self.tubes.append(tube)
        self.changed(tube.list_index)
        if len(self.tubes) % TUBES_PER_BLOCK == 0:
            self.text(tube.list_index // TUBES_PER_BLOCK)
        return 0

    def remove(self, tube):
        """Remove a tube; the last one takes its place."""
        last: Tube = self.tubes.pop()
        if last is not tube:
            self.changed(last.list_index)
            last.list_index = tube.list_index
            self.tubes[tube.list_index] = last
        return self.changed(tube.list_index)

    def changed(self, index):
        """Forget the text of the block with this index, or the block if the list now ends where it began."""
        block: cython.Py_ssize_t = index // TUBES_PER_BLOCK
        if block == len(self.texts):
            self.texts.append(None)
        elif index % TUBES_PER_BLOCK == 0 and index == len(self.tubes):
            self.texts.pop()
        else:
            self.texts[block] = None
        return 0

    def text(self, block):
        """Return the text of a block."""
        if self.texts[block] is None:
            first: cython.Py_ssize_t = block * TUBES_PER_BLOCK
            self.texts[block] = stats.names(self.tubes[first : first + TUBES_PER_BLOCK])
        return self.texts[block]

    def all_texts(self):
        """Return the text of every block, in order."""
        for block in range(len(self.texts)):
            self.text(block)
        return list(self.texts)

"""Whether a job is one that is looked for: by what stands in its body or its key."""

from dataclasses import dataclass

from beanpole.client import JobInfo

SEARCH_BYTES = 65_536
"""Bytes of each body that are searched."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a text: byte for byte as it stands, in UTF-8."""

    text: str
    """Empty: everything fits."""

    in_bodies: bool = True
    """Whether bodies are searched as well as keys."""

    @property
    def bytes_needed(self) -> int:
        """How many bytes of each body it needs."""
        return SEARCH_BYTES if self.text and self.in_bodies else 0

    @property
    def bodies_cut_at(self) -> int | None:
        """Up to which byte it looks at bodies; None: not at all."""
        return self.bytes_needed or None

    def fits(self, job: JobInfo) -> bool:
        """Whether the text stands in the job's body or key."""
        if not self.text:
            return True
        if job.key is not None and self.text in job.key:
            return True
        return self.in_bodies and self.text.encode("utf-8", "surrogateescape") in job.body[:SEARCH_BYTES]

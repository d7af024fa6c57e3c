"""Why jobs failed or died, for the verbs that show jobs; nothing, on a server that does not know explain."""

from collections.abc import Mapping, Sequence

from beanpole.cli.common import cell
from beanpole.client import Client
from beanpole.client.errors import NotFoundError

WORDS = ("died", "failed")
"""The reasons of explain that stay with a job."""

PIECE = 1_000
"""Jobs that are explained in one round trip."""


def reasons_of(client: Client[bytes], ids: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return what is known of each job that has failed or died: ``died``, ``failed``, or both."""
    if not ids or "explain" not in client.features():
        return {}
    found = {}
    for start in range(0, len(ids), PIECE):
        with client.pipeline(raise_errors=False) as pipeline:
            asked = [(id, pipeline.explain(id)) for id in ids[start : start + PIECE]]
        for id, result in asked:
            if not isinstance(result.error, NotFoundError):  # else it is gone
                found[id] = {each.word: each.text for each in result.result().reasons if each.word in WORDS}
    return found


def first_line(said: Mapping[str, str]) -> str:
    """Return the beginning of what the worker said last, or else of how the job died."""
    text = said.get("failed") or said.get("died", "")
    return cell(text.strip().partition("\n")[0])


def indented(word: str, text: str) -> list[str]:
    """Return a reason as lines: the text of an error has several."""
    first, *more = text.splitlines() or [""]
    return [f"  - {word}: {cell(first)}", *(f"    {cell(each)}" for each in more)]

"""The types of fields of which filters and answers are made: each is its schema and its check at once."""

from typing import Annotated

from msgspec import Meta, Struct

from beanpole.limits import TUBE_NAME_BYTES_MAX

API_TEXT_CHARS_MAX = 200  # characters that a search of the API may look for: as many as a page takes
ID_MAX = 2**63 - 1  # the greatest bound that msgspec knows. No server comes to an id above it

AnyTube = Annotated[str, Meta(max_length=TUBE_NAME_BYTES_MAX, description="A tube; empty: any.")]

Text = Annotated[str, Meta(max_length=API_TEXT_CHARS_MAX)]

Number = Annotated[int, Meta(ge=0, le=ID_MAX)]

PageSize = Annotated[int, Meta(ge=1, le=1000, description="The most of a page.")]

Next = Annotated[int | None, Meta(description="What to give as `after` to go on; null: there is nothing behind.")]


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may stand behind the question mark of an address."""

"""What a page shows, without its marks."""

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Takes the cells of all tables apart, and the texts of all else."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: dict[str, str] = {}  # where each leads, by its text; of equal ones the first
        self._href = ""
        self._link = ""
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
            self._in_cell = True
        elif tag == "a":
            self._href, self._link = dict(attrs).get("href") or "", ""

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._in_cell = False
        elif tag == "a":
            self.links.setdefault(" ".join(self._link.split()), self._href)

    def handle_data(self, data: str) -> None:
        self._link += data
        if self._in_cell:
            self.rows[-1][-1] += f"{data} "


def read(text: str) -> Reader:
    found = Reader()
    found.feed(text)
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of all tables of a page, row by row, with single spaces."""
    return [[" ".join(cell.split()) for cell in row] for row in read(text).rows]

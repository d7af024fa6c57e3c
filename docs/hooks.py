# noqa: INP001 - mkdocs loads this file by its path
"""What `make docs` does besides Markdown: the version in the head of each page, and the README as the home page.

There is one home page, README.md. In it links begin at the root of the repository, here at the folder of this file.
"""

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?!docs/|https?:|#)[^)]+\)")
"""A link to a file of the repository that is no page here."""


def home(readme: str) -> str:
    """Return the home page of the documentation."""
    inside = OUTSIDE.sub(r"\1", readme)
    return inside.replace("](docs/", "](").replace('src="docs/', 'src="')


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Write the version behind the name, in the head and in the titles."""
    config.site_name = f"{config.site_name} {VERSION}"
    return config


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Put the README in the place of the home page."""
    return home((ROOT / "README.md").read_text()) if page.file.src_uri == "index.md" else markdown

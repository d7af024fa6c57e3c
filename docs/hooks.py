# noqa: INP001 - mkdocs loads this file by its path
"""What `make docs` does besides Markdown: files of the repository as pages, the search's order, and pages for programs.

README.md is the home page. In the files of PAGES links begin at the root of the repository, here at the folder of this
file. Beside `worker/index.html` there is `worker.md`, where links from one page to another go on to work; `llms.txt`
lists these files.
"""

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from markdownify import markdownify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation, StructureItem
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

PAGES = {"index.md": "README.md", "security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md"}
"""Pages that are a file of the repository."""

BOOSTS = {
    r"(adr|ids)/|(api|changelog|reference)\.md": 0.1,
    r"(architecture|cli|limits|performance|protocol|wal-format)\.md": 0.3,
}
"""What the search makes of a hit in a reference: a guide that has the same words stands before it."""

SENTENCE = re.compile(r"# [^\n]*\n\n(?![#<|:!])(.+?)(?:[.:](?=\s)|\n\n)", re.DOTALL)
"""The first one of a page, behind its heading."""

LINK = re.compile(r"\[([^\]]*)\]\(([^)#]*)[^)]*\)")


def as_page(text: str) -> str:
    """Return the page that a file of the repository is; of a link to a file that is no page its text stays."""
    for page, file in PAGES.items():
        text = text.replace(f"]({file}", f"]({page}")
    text = text.replace("](docs/", "](").replace('src="docs/', 'src="')
    return LINK.sub(lambda link: link[0] if ":" in link[2] or (DOCS / link[2]).exists() else link[1], text)


def markdown_of(page: "Page") -> str:
    """Return a page for programs. What is made of docstrings exists as HTML only."""
    text = page.markdown or ""
    return (
        markdownify(page.content or "", heading_style="ATX", strip=["a"]).replace("¶", "") if "\n::: " in text else text
    )


def list_of(items: "list[StructureItem]") -> str:
    """Return lines for the pages of the navigation: title, address, first sentence."""
    lines = []
    for each in items:
        if each.is_page:
            sentence = SENTENCE.match(each.markdown)
            said = ": " + LINK.sub(r"\1", " ".join(sentence[1].split())) if sentence else ""
            lines.append(f"- [{each.title}]({each.file.src_uri}){said}\n")
        elif each.children:
            lines.append(list_of(each.children))
    return "".join(lines)


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Write the version behind the name, in the head and in the titles."""
    config.site_name = f"{config.site_name} {VERSION}"
    return config


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Put files of the repository in the place of their pages, and guides before references."""
    uri = page.file.src_uri
    for pattern, boost in BOOSTS.items():
        if re.match(pattern, uri):
            page.meta["search"] = {"boost": boost}
    return as_page((ROOT / PAGES[uri]).read_text()) if uri in PAGES else markdown


def on_post_page(output: str, page: "Page", config: "MkDocsConfig") -> str:
    """Write a page for programs beside it, and name it in its head."""
    file = Path(config.site_dir) / page.file.src_uri
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(markdown_of(page))
    up = "../" * page.url.count("/")
    link = f'<link rel="alternate" type="text/markdown" href="{up}{page.file.src_uri}">'
    return output.replace("</head>", link + "</head>", 1)


def on_nav(nav: "Navigation", config: "MkDocsConfig", **_: object) -> None:
    """Keep the navigation for the list of pages, whose text is not read yet."""
    config.extra["nav"] = nav


def on_post_build(config: "MkDocsConfig") -> None:
    """Write the list of the pages."""
    nav: Navigation = config.extra["nav"]
    parts = [f"# {config.site_name}\n\n> {config.site_description}\n\n"]
    parts += [
        f"## {each.title}\n\n{list_of([each])}\n" if each.children else list_of([each]) + "\n" for each in nav.items
    ]
    (Path(config.site_dir) / "llms.txt").write_text("".join(parts))

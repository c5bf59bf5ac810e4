"""Links lead to existing files, and to headings in them."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages, prose

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"#{1,6} (.+?) *#*")
_OUR_FILE = re.compile(r"`((?:tests|src|docs|bench|deploy|\.ci|\.github)/[\w./-]+)`")
_OTHER_SITES = ("https://", "http://", "mailto:")


def anchors(text: str) -> set[str]:
    """GitHub's anchors of a page's headings: lower case, hyphens for spaces, -1 after a repeated name."""
    found: set[str] = set()
    for line in prose(text).splitlines():
        if heading := _HEADING.fullmatch(line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            count = 0
            while (numbered := f"{name}-{count}" if count else name) in found:
                count += 1
            found.add(numbered)
    return found


@pytest.mark.parametrize("page", pages())
def test_every_link_has_a_target(page: str) -> None:
    dead = []
    for target in (*_LINK.findall(prose(pages()[page])), *_IMAGE.findall(pages()[page])):
        if target.startswith(_OTHER_SITES):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith("docs/")])
def test_every_page_can_be_reached_from_the_readme(page: str) -> None:
    seen, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        at = todo.pop()
        if at in seen or not at.exists():
            continue
        seen.add(at)
        links = (link.partition("#")[0] for link in _LINK.findall(at.read_text()))
        todo += [(at.parent / link).resolve() for link in links if link.endswith(".md")]
    assert ROOT / page in seen


def test_an_anchor_is_what_github_makes_of_a_heading() -> None:
    text = "# A `b.c` (d)\n## Same\n```\n# no heading\n```\n## Same\n"
    assert anchors(text) == {"a-bc-d", "same", "same-1"}


@pytest.mark.parametrize("page", [page for page in pages() if page != "CHANGELOG.md"])
def test_files_named_in_pages_exist(page: str) -> None:
    named = set(_OUR_FILE.findall(pages()[page]))
    assert [name for name in sorted(named) if not (ROOT / name.rstrip("./")).exists()] == []

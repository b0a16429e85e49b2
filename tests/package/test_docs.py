"""README and docs: links, anchors, commands and code blocks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT

REPOSITORY = "https://github.com/vecall/vecall/blob/main/"
IMAGES = "https://raw.githubusercontent.com/vecall/vecall/main/"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("bench/**/*.md")),
]
GUIDES = [p for p in PAGES if p.name == "README.md" or p.parent.name == "guide"]
FENCE = re.compile(r"^( *)```(.*?)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").exists(), reason="the documentation is not beside the tests"
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks and spans of code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    text = FENCE.sub("", page.read_text("utf-8"))
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        count = sum(each == slug or each.startswith(f"{slug}-") for each in found)
        found.add(f"{slug}-{count}" if slug in found else slug)
    return found


def targets(page: Path) -> list[str]:
    """What the links of a page name, inline or by reference."""
    text = prose(page)
    inline = re.findall(r"\]\(([^)\s]+)\)", text)
    return inline + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Each link to a file of the project: the file and the anchor."""
    for target in targets(page):
        for base in (REPOSITORY, IMAGES):
            if target.startswith(base):
                path, _, anchor = target.removeprefix(base).partition("#")
                yield ROOT / path, anchor
                break
        else:
            if not re.match(r"https?:|mailto:", target):
                path, _, anchor = target.partition("#")
                yield (page.parent / path if path else page), anchor


def programs(page: Path) -> list[str]:
    return [
        re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)
        for indent, language, code in FENCE.findall(page.read_text("utf-8"))
        if language == "python"
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        if anchor:
            assert anchor in anchors(target), f"{target}#{anchor}"


def test_the_readme_has_no_relative_link() -> None:
    """A package index shows the page without the files beside it."""
    found = targets(ROOT / "README.md")
    assert found
    assert [each for each in found if not each.startswith("https://")] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_reference_of_a_link_is_defined(page: Path) -> None:
    text = prose(page)
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used == set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))


def test_every_page_is_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md", ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert {each.resolve() for each in PAGES} - reached == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_script_and_test_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for path in re.findall(r"(?<![\w/])((?:bench|tests|examples)/[\w/]+\.py)", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_program_of_the_guide_compiles(page: Path) -> None:
    for program in programs(page):
        compile(program, name(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_requirement_that_a_test_cites_is_listed() -> None:
    listed = set(
        re.findall(
            r"^\| (S\d\.\d+b?) \|",
            (ROOT / "docs/design/requirements.md").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    cited = {
        requirement
        for path in (ROOT / "tests").rglob("*.py")
        for requirement in re.findall(r"\bS[0-4]\.\d+b?\b", path.read_text("utf-8"))
    }
    assert len(cited) > 200
    assert cited <= listed

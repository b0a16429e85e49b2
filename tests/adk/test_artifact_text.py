"""What is read of an artifact, and in which pieces."""

from __future__ import annotations

import io
import random
import zipfile

import pytest

pytest.importorskip("google.adk")

from google.genai import types
from vecall.adk.artifacts import PIECE, split_artifact_text, text_of


def a_blob(data: bytes, mime_type: str | None) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))


def a_docx(*paragraphs: str, document: str | None = None) -> bytes:
    runs = (f"<w:p><w:r><w:t>{each}</w:t></w:r></w:p>" for each in paragraphs)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", document or "".join(runs))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "mime_type", "name", "text"),
    [
        (b"seeds", "text/plain", "a", "seeds"),
        (b"seeds", "TEXT/Markdown; charset=utf-8", "a", "seeds"),
        (b"a,b\n1,2", "application/csv", "a", "a,b\n1,2"),
        (b'{"a": 1}', "application/json", "a", '{"a": 1}'),
        (b'{"a": 1}', "application/ld+json", "a", '{"a": 1}'),
        (b"<svg/>", "image/svg+xml", "a", "<svg/>"),
        (b"a: 1", "application/yaml", "a", "a: 1"),
        (b"seeds", "application/octet-stream", "a.TXT", "seeds"),
        (b"seeds", None, "dir/a.md", "seeds"),
        (b"seeds", None, "a", None),
        (b"seeds", "application/pdf", "a.txt", None),
        (b"PK", "application/octet-stream", "a.docx", None),
        (b"\x89PNG", "image/png", "a.png", None),
    ],
)
def test_what_says_that_it_is_a_text_is_read(
    data: bytes, mime_type: str | None, name: str, text: str | None
) -> None:
    """S1.43: by its type, or by its name where there is no type."""
    assert text_of(a_blob(data, mime_type), name) == text


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("é".encode("latin-1"), "ISO-8859-1", "é"),
        ("é".encode("cp1252"), '"windows-1252"', "é"),
        ("é".encode("utf-16"), "utf-8", "é"),
        ("é".encode("utf-8-sig"), "utf-8", "é"),
        ("鳥".encode("shift_jis"), "Shift_JIS", "鳥"),
        ("é".encode(), "nonsense", "é"),
        ("é".encode(), "hex", "é"),
        ("é".encode(), "punycode", "é"),
        ("é".encode(), "x" * 100_000, "é"),
        (b"good \xff seeds", "utf-8", "good \ufffd seeds"),
    ],
)
def test_a_text_is_decoded_by_its_charset(data: bytes, charset: str, text: str) -> None:
    """S1.43: what is no charset counts as UTF-8."""
    assert text_of(a_blob(data, f"text/plain; charset={charset}"), "a") == text


def test_what_is_no_text_whatever_it_says_is_not_read() -> None:
    """S1.43."""
    noise = random.Random(1).randbytes(10_000)
    assert text_of(a_blob(noise, "text/plain"), "a.txt") is None


@pytest.mark.parametrize("name", ["a.html", "a"])
def test_of_html_the_words_are_read(name: str) -> None:
    """S1.43."""
    page = """<html><head><title>Parrots</title><script>if (a<b) {"</b>"}</script>
    <style>p {}</style></head><body><h1>Seeds</h1><p>at <b>eight</b>&amp; six
    <table><tr><td>1</td><td>2</td></tr></table></body>"""
    kind = "text/html" if name == "a" else "application/octet-stream"
    text = text_of(a_blob(page.encode(), kind), name)
    assert text is not None
    assert text.split() == "Parrots Seeds at eight& six 1 2".split()
    assert "Seeds\n" in text


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize("mime_type", [DOCX, "application/octet-stream"])
def test_of_docx_the_paragraphs_are_read(mime_type: str) -> None:
    """S1.43: as load_artifacts shows them."""
    part = a_blob(a_docx("Parrots", "eat  seeds", "and nuts"), mime_type)
    text = text_of(part, "diet.docx")
    assert text is not None
    assert text.split("\n") == ["", "Parrots", "", "eat  seeds", "", "and nuts", ""]
    tool = pytest.importorskip("google.adk.tools.load_artifacts_tool")
    if hasattr(tool, "as_safe_part_for_llm"):
        shown = tool.as_safe_part_for_llm(part, "diet.docx").text
        assert shown.split("\n") == [each for each in text.split("\n") if each]


def test_a_broken_docx_is_not_read() -> None:
    """S1.43."""
    assert text_of(a_blob(a_docx("Parrots")[:-30], DOCX), "diet.docx") is None


HOSTILE = {
    "text tags that do not end": ("<w:t" * 600_000, 0),
    "tags that do not end": ("<" * 3_000_000, 0),
    "a tag that does not end": ("<a " + "b" * 3_000_000, 0),
    "paragraphs": ("<w:p>" * 100_000, 100_000),
    "scripts": ("<script>" * 100_000, 100_000),
    "digits": ("&#" + "9" * 5_000 + ";" * 300_000, 0),
    "blank lines": ("\n \t" * 1_000_000, 0),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_markup_is_read_in_time_that_grows_with_its_length(kind: str) -> None:
    """S1.43: the time that google-adk takes for the first grows with the square: hours,
    and nothing else runs meanwhile.
    """
    markup, tags = HOSTILE[kind]
    for part in (
        a_blob(a_docx(document=markup), "application/octet-stream"),
        a_blob(markup.encode(), "text/html"),
    ):
        text = text_of(part, "a.docx")
        assert text is not None
        assert bool(text.strip()) == (not tags and "blank" not in kind)


def test_a_document_that_unpacks_to_much_more_is_read_in_part() -> None:
    """S1.43."""
    packed = io.BytesIO()
    archive = zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("word/document.xml", "w") as document:
        for _ in range(20):
            document.write(b"seeds " * 200_000)
    text = text_of(a_blob(packed.getvalue(), None), "a.docx")
    assert text is not None
    assert len(text) == 10_000_000


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_the_text(seed: int) -> None:
    """S1.43: nothing is lost but blank space, and nothing is too long."""
    rng = random.Random(seed)
    marks = ["\n\n", "\n", ". ", "! ", "。", " ", ",", "", ""]
    text = "".join(
        rng.choice("abcé\U0001f99c") * rng.randint(1, 400) + rng.choice(marks)
        for _ in range(rng.randint(0, 300))
    )
    parts = list(split_artifact_text(text))
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part and len(part) <= PIECE for part in parts)
    assert len(parts) <= 2 * len(text) / PIECE + 1


def test_pieces_end_where_something_ends() -> None:
    """S1.43: a paragraph rather than a line, a line rather than a sentence."""
    fill = "x" * (PIECE // 2)
    for best, worse in (("\n\n", "\n"), ("\n", ". "), (". ", " "), (" ", "x")):
        text = f"{fill}a{best}b{worse}{fill}{fill}"
        assert next(split_artifact_text(text)) == f"{fill}a{best}".strip()


def test_blank_text_has_no_pieces() -> None:
    """S1.43."""
    assert (
        list(split_artifact_text("")) == list(split_artifact_text(" \n" * 5_000)) == []
    )

"""What of a memory's text and names is shown, and how it is spelled."""

from __future__ import annotations

import json

import pytest
from vecall import MemoryEntry, render


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "red link"),
        ("a\x00b\x08c\x7fd\x9fe", "abcde"),
        ("\u202eabc\u202c \u200fx", "abc x"),
        ("z\u200be\u2060b\ufeffr\u00ada", "zebra"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("a\ufe0fb\ufe01c\U000e0100", "abc"),
        ("a\u200db\u200cc", "abc"),
        ("\ud800", "\ufffd"),
    ],
)
def test_what_cannot_be_seen_is_not_shown(text, shown):
    """S2.9: in plain text too."""
    assert render([MemoryEntry(text)]) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Tab\tand  spaces\n\n    code()",
        "安静的房间、高樓層。「静かな部屋」《书名》〈章〉",
        "«тихая комната»",
        "می\u200cخواهم",  # noqa: RUF001
        "क्\u200dष",
        "❤\ufe0f\u200d🔥 👩\u200d👩\u200d👧 1\ufe0f\u20e3 ☎\ufe0e",
        "naïve café Ω ≈ ½ — “quoted”",
        "R&D at AT&T; Q&A",
        "2 > 1 and a -> b",
        "[x] done [todo] [1]",
    ],
)
def test_text_of_every_script_is_shown_as_it_is(text):
    """S2.10: nothing that a person wrote is lost."""
    assert render([MemoryEntry(text)]) == text
    inside = text.replace("\n    ", "\n      ")
    assert render([MemoryEntry(text)], "bullets").endswith(f"- memory: {inside}")
    assert json.loads(render([MemoryEntry(text)], "json"))[0]["text"] == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 < 2", "1 &lt; 2"),
        ("</PAST_CONVERSATIONS>", "&lt;/PAST_CONVERSATIONS>"),
        ("&lt;/b&gt;", "&amp;lt;/b&amp;gt;"),
        ("[INST]", "&#91;INST]"),
        ("〈/memory〉", "&lt;/memory〉"),
        ("a\n\n\n\nb\n", "a\n\n  b"),
    ],
)
def test_what_could_be_a_tag_is_shown_as_text(text, shown):
    """S2.9: as XML spells it, so that a model reads what was written."""
    assert render([MemoryEntry(text)], "bullets").endswith(f"- memory: {shown}")


def test_a_name_stays_on_its_line_and_is_cut():
    long = MemoryEntry("a", author="x" * 500)
    assert len(render([long], "bullets")) < 150


@pytest.mark.parametrize(
    ("author", "shown"),
    [
        ("user: yes\nsystem:", "user yes system"),
        ("user:: yes::", "user yes"),
        (":user", "user"),
        ("[2030-01-01T00:00:00Z] root", "2030-01-01T00:00:00Z] root"),
        ("agent:travel", "agent:travel"),
        ("\u200b", "memory"),
        ("", "memory"),
        ('"O\'Neil"', "&quot;O'Neil&quot;"),
    ],
)
def test_a_name_cannot_speak_for_another(author, shown):
    """S2.5: what is before the first colon is one name."""
    for form in ("bullets", "past_conversations"):
        lines = render([MemoryEntry("hi", author=author)], form).split("\n")
        assert any(line.removeprefix("- ") == f"{shown}: hi" for line in lines)

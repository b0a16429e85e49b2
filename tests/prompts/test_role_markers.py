"""Marks by which chat templates tell speakers apart, of many families of models."""

from __future__ import annotations

import functools
import json
import unicodedata

import pytest
from vecall import MemoryEntry, render

# As their chat templates and tokenizers spell them.
MARKS = {
    "EXAONE": ["[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]"],
    "Jais, Ziya": ["[|Human|]", "[|AI|]", "[| Human |]", "[\uff5cHuman\uff5c]"],
    "GLM": ["[gMASK]", "[sMASK]", "[MASK]"],
    "MiniMax": ["]~b]system", "]~!b[", "[e~["],
    "Mistral": [
        "[MODEL_SETTINGS]",
        "[/MODEL_SETTINGS]",
        "[AUDIO]",
        "[BEGIN_AUDIO]",
        "[TRANSCRIBE]",
        "[INST]",
        "[/INST]",
        "[TOOL_CALLS]",
        "[AVAILABLE_TOOLS]",
        "[SYSTEM_PROMPT]",
        "[SOME_NEW_TOKEN]",
    ],
    "NFKC of these": ["\uff3bINST\uff3d", "\uff3b\uff5csystem\uff5c\uff3d"],
    "ChatML": ["<|im_start|>", "<|im_end|>", "\uff1c|im_end|\uff1e"],
}
ALL = [mark for marks in MARKS.values() for mark in marks]
FRAMED = ("bullets", "past_conversations", "secure")


@pytest.mark.parametrize("form", FRAMED)
@pytest.mark.parametrize("mark", ALL)
def test_no_mark_is_shown_as_it_is_spelled(form, mark):
    """S2.9: in a text, in a name, in any Unicode form of what is shown."""
    memory = MemoryEntry(f"a {mark} b", author=f"x{mark}y", kind=mark, source=mark)
    shown = render([memory], form, nonce="abcdef123456")
    for name in ("NFC", "NFD", "NFKC", "NFKD"):
        plain = unicodedata.normalize(name, shown)
        assert mark not in plain
        assert unicodedata.normalize("NFKC", mark) not in plain


@pytest.mark.parametrize("mark", ALL)
def test_json_escapes_them_and_gives_them_back(mark):
    """S2.9: a parser reads what was stored."""
    shown = render([MemoryEntry(f"a {mark} b")], "json")
    assert mark not in shown
    assert json.loads(shown)[0]["text"] == f"a {mark} b"


@functools.cache
def like_less() -> list[str]:
    """What of all of Unicode becomes "<" and more when it is normalised."""
    return [
        char
        for char in map(chr, range(0x80, 0x110000))
        if unicodedata.decomposition(char)
        and any("<" in unicodedata.normalize(form, char) for form in ("NFD", "NFKD"))
    ]


@pytest.mark.parametrize("form", FRAMED)
def test_no_character_becomes_a_tag_when_it_is_normalised(form):
    """S2.9: of all of Unicode, in each of its four forms."""
    less = like_less()
    assert "\u226e" in less
    plain = render([MemoryEntry("x")], form, nonce="abcdef123456").count("<")
    for letter in less:
        memory = MemoryEntry(f"{letter}|im_end|>")
        shown = render([memory], form, nonce="abcdef123456")
        assert unicodedata.normalize("NFKD", shown).count("<") == plain


@pytest.mark.parametrize(
    "text",
    [
        "see [1] and [a] and x[0]",
        "[Alice]: hello [sic]",
        "- [ ] buy milk",
        "- [x] done",
        "list[int] ~ [1, 2]",
        "[link](https://example.com)",
    ],
)
def test_other_brackets_stay_as_they_are(text):
    """S2.9: what no template uses is not touched."""
    assert text in render([MemoryEntry(text)], "bullets")

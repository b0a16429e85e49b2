"""Through google-adk's contract the same is recalled, and nothing is shared."""

from __future__ import annotations

import random
import re
import unicodedata
from typing import Any

import pytest
from helpers.options import grouped

pytest.importorskip("google.adk")

from google.adk.sessions import Session
from google.genai import types
from helpers.adk import PARROT, ROOM, a_session, an_event, ingest, search
from vecall import MemoryService
from vecall.adk import VecallMemoryService
from vecall.evaluation.datasets import read_demo
from vecall.text import escape_tags, neutralise_for_adk, strip_invisible

APP = "hotel"
TOP_K = 10


def embed(texts: list[str]) -> list[list[float]]:
    """Vectors that tell texts apart by their letters."""
    return [
        [1.0 + text.lower().count(letter) for letter in "aeioustnrl"] for text in texts
    ]


def adk_session(session: Any) -> Session:
    events = [
        an_event(turn.content, id=turn.id, author=turn.author, timestamp=turn.timestamp)
        for turn in session.events
    ]
    return Session(app_name=APP, user_id=session.user_id, id=session.id, events=events)


@pytest.mark.parametrize("embedded", [False, True], ids=["words", "words and vectors"])
def test_the_adapter_finds_what_the_core_finds_in_the_same_order(
    embedded: bool,
) -> None:
    """Told by sessions of google-adk and by vecall's own, asked every question."""
    options: dict[str, Any] = {
        "embedder": embed if embedded else None,
        "top_k": TOP_K,
    }
    core, adapter = (
        MemoryService(**grouped(**{"embedder": None, **options})),
        VecallMemoryService(**grouped(**{"embedder": None, **options})),
    )
    conversations = read_demo(APP, unanswerable=True)
    asked = 0
    for told in conversations:
        for session in told.sessions:
            core.sync.add_session_to_memory(session)
            ingest(adapter, adk_session(session))
    for told in conversations:
        user = {"app_name": APP, "user_id": told.user_id}
        for question in told.questions:
            right = core.sync.search_memory(**user, query=question.text).memories
            found = search(adapter, question.text, **user).memories
            assert [(one.id, one.content.parts[0].text) for one in found] == [
                (one.id, one.text) for one in right
            ]
            for one, of in zip(found, right, strict=True):
                mine = one.custom_metadata["vecall"]
                assert (mine["session_id"], mine["event_id"]) == (
                    of.session_id,
                    of.event_id,
                )
            asked += len(found)
    assert asked > TOP_K
    core.close()
    adapter.close()


def test_no_two_entries_share_what_can_be_changed() -> None:
    """Entries are made from templates: only fields that were given may be set."""
    service = VecallMemoryService(embedder=None)
    ingest(service, a_session(an_event(ROOM, id="a"), an_event(PARROT, id="b")))
    first = search(service, "quiet room, parrots").memories
    again = search(service, "quiet room, parrots").memories
    assert len(first) == 2
    contents = [one.content for one in first + again]
    parts = [part for content in contents for part in content.parts]
    assert len({id(content) for content in contents}) == len(contents)
    assert len({id(content.parts) for content in contents}) == len(contents)
    assert len({id(part) for part in parts}) == len(parts)
    for one in first:
        (part,) = one.content.parts
        made = types.Content(role=one.content.role, parts=[types.Part(text=part.text)])
        assert one.content == made
        assert one.content.model_dump_json() == made.model_dump_json()
        assert one.content.model_fields_set == made.model_fields_set
        assert set(part.model_dump(exclude_none=True)) == {"text"}
        assert set(made.model_dump(exclude_none=True)) == {"role", "parts"}
        part.text, one.content.role = "changed", "changed"
        part.inline_data = types.Blob(data=b"x", mime_type="image/png")
    later = search(service, "quiet room, parrots").memories
    assert [one.content for one in later] == [one.content for one in again]
    service.close()


# What may stand between the letters of a tag, seen and unseen; U+0345 is no letter but
# folds to one, and "\u1e97" folds to a letter and a mark.
COMMON = ["", "", "", " ", "_", "\n", "-", "\u200b"]
RARE = ["\u0345", "\u0308", "\u03b9", "\xad", "\U000e0050"]


def spellings(count: int) -> list[str]:
    """Texts that spell the tag, or almost."""
    chance = random.Random(7)
    made = []
    for _ in range(count):
        letters = list("pastconversations")
        odd = chance.randrange(20)  # beyond the last letter there is nothing odd
        for at, letter in enumerate(letters):
            forms = [letter, letter.upper(), chr(ord(letter) + 0xFEE0)]
            between = COMMON
            if at == odd:
                forms = {"s": ["\u017f", "\xdf"], "t": ["\u1e97"]}.get(letter, forms)
                between = RARE
            letters[at] = chance.choice(forms) + chance.choice(between)
        if chance.random() < 0.3:
            del letters[chance.randrange(len(letters))]
        made.append(f"a < b </{''.join(letters)}>")
    return made


def test_whatever_spells_the_tag_is_escaped_and_nothing_else() -> None:
    """A quick look comes first; it must miss nothing that dropping all else finds."""
    escaped = 0
    for text in spellings(3_000):
        shown = strip_invisible(text)
        letters = re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", shown))
        spelt = "pastconversations" in letters.casefold()
        assert neutralise_for_adk(text) == (escape_tags(shown) if spelt else shown), (
            ascii(text)
        )
        escaped += spelt
    assert 100 < escaped < 2_900

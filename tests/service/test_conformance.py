"""One suite that every memory service passes, so that one can take another's place.

S0.30, S4.53: each test runs on all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.services import ALICE, BOB, KINDS, PAIRS, Client, scope, turn
from vecall import Filter, InvalidArgumentError, MemoryEntry, MemoryProtocol

WORDLESS = [
    "",
    " \t\n",
    "?!... --",
    "\0",
    "%",
    "*",
    '"()',
    "\ud800\udfff",
]
HOSTILE = [
    "zebra\0",
    "zebra " * 20_000,
    "z" * 100_000,
    "zebra \udcff",
    "\ud800 zebra",
    "zebra" + "\u0301" * 50_000,
    "\u0301\u0316" * 30_000,
    "zebra OR 1=1; --",
    'zebra" NEAR(',
    "(?:zebra)+++",
    "\u732b\u732b zebra",
    "\u202ezebra",
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def client(request, tmp_path):
    with request.param.open(tmp_path) as service:
        yield Client(service, request.param)


def test_it_is_a_memory_service(client):
    """S0.8."""
    assert isinstance(client.service, MemoryProtocol)
    assert client.service.capabilities >= {
        "add_events_to_memory",
        "add_memory",
        "delete_memory",
    }


def test_nothing_is_remembered_unless_it_is_told(client):
    """S0.9: a search writes nothing, and a session that grows is not watched."""
    assert client.search("zebra") == []
    assert client.search("zebra") == []
    events = [turn(1)]
    told = {**ALICE, "id": "s", "events": events}
    asyncio.run(client.service.add_session_to_memory(told))
    events.append(turn(2))
    assert client.texts() == ["zebra 1"]


def test_each_turn_with_text_is_one_memory(client):
    """S0.13: what has no text is skipped; parts are joined, thoughts stay out."""
    parts = [{"text": "zebra a"}, {"text": "b"}, {"text": "secret", "thought": True}]
    ids = client.tell(
        turn(1),
        turn(2, ""),
        turn(3, " \n\t"),
        {**turn(4), "text": None, "content": {"parts": parts}},
        {**turn(5), "text": None, "content": {"parts": [{"function_call": {}}]}},
        {**turn(6), "text": None},
    )
    assert [each.index for each in ids.left_out] == [1, 2, 4, 5]
    assert len(ids.stored) == 2
    assert client.texts() == ["zebra 1", "zebra a\nb"]


def test_author_time_and_origin_are_kept(client):
    """S0.4, S0.5, S0.14."""
    client.tell(turn(1, author="user"), turn(2, author="agent", timestamp=1.7e9 + 0.25))
    first, second = sorted(client.search(), key=lambda memory: memory.timestamp)
    assert (first.author, first.timestamp) == ("user", 1.0)
    assert (second.author, second.timestamp) == ("agent", 1.7e9 + 0.25)
    assert (second.session_id, second.event_id) == ("s", "e2")
    assert second.kind == "episode"


def test_what_comes_without_author_and_time_stays_without(client):
    """S0.6."""
    client.tell({"id": "e", "text": "zebra"})
    (memory,) = client.search()
    assert memory.author is None
    assert memory.timestamp is None


def test_every_user_of_every_app_is_alone(client):
    """S0.11, S0.12: names that a joined, folded or escaped key would confuse."""
    for i, pair in enumerate(PAIRS):
        client.tell(turn(1, f"zebra {i}"), **scope(pair))
    for i, pair in enumerate(PAIRS):
        assert client.texts(**scope(pair)) == [f"zebra {i}"]
    (id_,) = {client.search(**scope(pair))[0].id for pair in PAIRS}
    client.delete(id_, **scope(PAIRS[0]))
    assert client.texts(**scope(PAIRS[0])) == []
    for i, pair in list(enumerate(PAIRS))[1:]:
        assert client.texts(**scope(pair)) == [f"zebra {i}"]


def test_an_unknown_user_finds_nothing(client):
    """S0.11."""
    client.tell(turn(1))
    assert client.search("zebra", **BOB) == []


def test_a_session_told_in_any_order_is_one_session(client):
    """S4.65, section 2.0: no duplicates, and absence deletes nothing."""
    whole = [turn(n) for n in range(4)]
    ids = client.tell(*whole)
    for some in [*itertools.permutations(whole, 2), whole, whole[::-1], []]:
        client.tell(*some)
    assert client.tell(*whole[::-1]) == ids[::-1]
    assert client.texts() == [event["text"] for event in whole]


def test_a_changed_turn_takes_its_own_place(client):
    """Section 2.0: an upsert by session and event."""
    (before,) = client.tell(turn(1))
    (after,) = client.tell(turn(1, "zebra anew"))
    assert before == after
    assert client.texts() == ["zebra anew"]


def test_new_turns_can_be_added_alone(client):
    """S1.7: they are those of the whole session."""
    first = client.add_events(turn(1), session_id="s")
    second = client.add_events(turn(2), turn(1), session_id="s")
    assert client.tell(turn(1), turn(2)) == [*first, second[0]]
    assert client.texts() == ["zebra 1", "zebra 2"]
    client.add_events(turn(1))
    assert client.texts() == ["zebra 1", "zebra 1", "zebra 2"]


def test_strings_and_entries_are_remembered(client):
    """S1.7, S0.3."""
    entry = MemoryEntry(
        {"parts": [{"text": "zebra c"}, {"text": "d"}]},
        id="mine",
        author="agent",
        timestamp=5.0,
        session_id="t",
        kind="fact",
        source="book",
        trust="high",
        custom_metadata={"page": 7},
    )
    assert client.add("zebra a", {"content": "zebra b"}, entry)[2] == "mine"
    assert client.texts() == ["zebra a", "zebra b", "zebra c\nd"]
    (found,) = client.search(filter=Filter(session_id="t"))
    assert found.content == entry.content
    for name in "id author timestamp session_id kind source trust".split():
        assert getattr(found, name) == getattr(entry, name)
    assert found.custom_metadata == {"page": 7}


def test_a_memory_without_text_is_refused(client):
    """So that nothing without text is ever found."""
    for blank in ("", " \n", {"content": ""}, {"parts": []}):
        with pytest.raises(InvalidArgumentError):
            client.add("zebra", blank)
    assert client.search() == []


def test_a_memory_is_deleted_by_its_id(client):
    """S1.7."""
    ids = client.tell(turn(1), turn(2))
    client.delete(ids[0])
    assert client.texts() == ["zebra 2"]
    client.delete(ids[0])
    assert client.texts() == ["zebra 2"]


def test_an_unknown_id_or_none_deletes_nothing(client):
    """S1.7."""
    client.tell(turn(1))
    for memory_id in (None, "unknown", "%", "e1"):
        client.delete(memory_id)
        client.delete(memory_id, **BOB)
        assert client.texts() == ["zebra 1"], memory_id


def test_a_deleted_turn_stays_deleted_where_deletions_are_recorded(client):
    """Section 2.0: tombstones win; a bare vector store has none."""
    ids = client.tell(turn(1), turn(2))
    client.delete(ids[0])
    client.tell(turn(1), turn(2))
    expected = ["zebra 2"] if client.kind.buries else ["zebra 1", "zebra 2"]
    assert client.texts() == expected


def test_a_query_without_a_word_finds_nothing(client):
    """S0.45."""
    client.tell(turn(1))
    for query in WORDLESS:
        assert client.search(query) == [], ascii(query)


def test_no_query_is_refused(client):
    """S0.11: whatever it says; what is found has text."""
    client.tell(turn(1), turn(2))
    for query in HOSTILE:
        for memory in client.search(query):
            assert memory.text in {"zebra 1", "zebra 2"}, ascii(query)[:24]


def test_hostile_texts_are_kept_and_found(client):
    """S0.13: only lone surrogates change."""
    texts = [
        "zebra \0 nul",
        "zebra " + "\u0301" * 20_000,
        "zebra \ud800",
        "z" * 100_000,
    ]
    client.add(*texts, "zebra 1")
    expected = sorted(text.replace("\ud800", "\ufffd") for text in texts[:3])
    found = [text for text in client.texts() if text.startswith("zebra")]
    assert found == sorted([*expected, "zebra 1"])


def test_what_is_found_is_the_callers_own(client):
    """S1.22: changing it, or what was told, changes nothing."""
    metadata = {"tags": ["x"], "deep": {"a": 1}}
    client.tell(turn(1, custom_metadata=metadata))
    metadata["tags"].append("y")
    (first,) = client.search()
    assert first.custom_metadata == {"tags": ["x"], "deep": {"a": 1}}
    first.custom_metadata["tags"].append("z")
    first.custom_metadata["deep"].clear()
    (second,) = client.search()
    assert second.custom_metadata == {"tags": ["x"], "deep": {"a": 1}}


def test_five_memories_unless_a_search_asks_for_more_or_fewer(client):
    """S0.26, S0.27."""
    client.tell(*[turn(n) for n in range(12)])
    assert len(client.search()) == 5
    assert len(client.search(top_k=12)) == 12
    assert len(client.search(top_k=3)) == 3
    assert client.search(top_k=12)[:3] == client.search(top_k=3)


def test_a_number_of_memories_that_is_none_is_refused(client):
    """S0.27."""
    for top_k in (0, -1, True, 1.5, "5", 1_000_000):
        with pytest.raises(ValueError, match="top_k"):
            client.search(top_k=top_k)


def test_what_may_not_be_found_takes_no_place_in_the_answer(client):
    """S4.65: the limit is the last step, after the user, the filter and deletion."""
    text = "zebra here"
    client.tell(turn(0, text), id_="t")
    others = client.tell(*[turn(n, text) for n in range(100, 130)])
    client.tell(*[turn(n, text) for n in range(100, 130)], **BOB)
    for asked in [Filter(session_id="t"), Filter(before=1.0), Filter(after=0.0)]:
        (found,) = client.search(text, top_k=1, filter=asked)
        assert (found.session_id == "t") == (asked.after is None)
    for id_ in others:
        client.delete(id_)
    (found,) = client.search(text, top_k=1)
    assert found.session_id == "t"


def test_what_has_expired_takes_no_place_in_the_answer(client):
    """S4.65, S1.7."""
    client.tell(turn(0, "zebra here"))
    late = [turn(n, "zebra here", timestamp=None) for n in range(100, 130)]
    client.add_events(*late, custom_metadata={"ttl": 0.1})
    client.add_events(turn(1, "zebra there"), custom_metadata={"ttl": 3600})
    time.sleep(0.11)
    assert len(client.search(top_k=2)) == 2
    assert client.texts() == ["zebra here", "zebra there"]


def test_what_is_no_longer_true_is_not_found(client):
    """S4.65: nor does it take a place in the answer."""
    past = [MemoryEntry(f"zebra old {n}", valid_until=5.0) for n in range(9)]
    client.add(*past, MemoryEntry("zebra now", valid_until=9e9, timestamp=0.0))
    (found,) = client.search(top_k=1)
    assert (found.text, found.valid_until) == ("zebra now", 9e9)
    assert client.texts() == ["zebra now"]


def test_what_cannot_be_a_name_is_refused(client):
    """S0.11: and nothing was written."""
    bad = ["", "a\0b", "\ud800", "x" * 513, 7, None]
    for who in [{**ALICE, of: name} for of in ("user_id", "app_name") for name in bad]:
        for call in (
            lambda who=who: client.search(**who),
            lambda who=who: client.tell(turn(1), **who),
            lambda who=who: client.add("zebra", **who),
            lambda who=who: client.add_events(turn(1), **who),
            lambda who=who: client.delete("x", **who),
        ):
            with pytest.raises(InvalidArgumentError):
                call()
    assert client.search() == []


def test_threads_and_event_loops_share_a_service(client):
    """S0.31: eight loops at once; nothing is lost, nobody meets another."""

    async def live(user):
        who = {"app_name": "app", "user_id": f"u{user % 4}"}
        service = client.service
        for n in range(4):
            event = turn(n, f"zebra {user % 4} {n}")
            told = {**who, "id": f"s{user}", "events": [event]}
            answers = await asyncio.gather(
                service.add_session_to_memory(told),
                service.search_memory(**who, query="zebra"),
                service.add_memory(**who, memories=[f"zebra {user % 4} m{n}"]),
                service.search_memory(**who, query="zebra"),
            )
            for answer in answers[1::2]:
                for memory in answer.memories:
                    assert memory.text.startswith(f"zebra {user % 4} ")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda user: asyncio.run(live(user)), range(8)))
    for user in range(4):
        texts = [f"zebra {user} {n}" for n in range(4)] * 2
        texts += [f"zebra {user} m{n}" for n in range(4)]
        who = {"app_name": "app", "user_id": f"u{user}"}
        assert client.texts(**who) == sorted(texts)

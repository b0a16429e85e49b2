"""A text that is too long for one memory is stored as passages of its turn."""

from __future__ import annotations

import random

import pytest
from helpers.services import ALICE
from vecall import (
    Event,
    LimitExceededError,
    Limits,
    MemoryEntry,
    Quota,
    Rights,
    WritePolicy,
    redact,
)
from vecall.hooks import ALLOW, QUARANTINE
from vecall.ingest.passages import split_into_passages
from vecall.store import make_memory_id

SHORT = Limits(max_text_bytes=64)


def numbered(count, word="line"):
    return "\n".join(f"{word} {number} of a long text" for number in range(count))


LONG = numbered(12)


@pytest.fixture
def sync(open_service, tmp_path):
    return open_service(tmp_path / "m.db", limits=SHORT).sync


def stored(sync, **more):
    return sync.list_memories(**ALICE, **more)


def joined(sync):
    return "".join(each.text for each in stored(sync))


def session(*events):
    return {**ALICE, "id": "s", "events": list(events)}


def turn(text, id_="t"):
    return Event(text, author="user", timestamp=1.0, id=id_)


@pytest.mark.parametrize("most", [4, 7, 64, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_the_passages_of_a_text_joined_are_the_text(seed, most):
    chance = random.Random(seed)
    letters = [
        "a",
        " ",
        "\n",
        "\n\n",
        ". ",
        "é",
        "漢",
        "\U0001f99c",
        "\u0301",
        "\u200d",
    ]
    text = "x" + "".join(chance.choices(letters, k=500)) + "x"
    passages = split_into_passages(text, most)
    blank = text
    for each in passages:
        assert 0 < len(each.encode()) <= most
        before, _, blank = blank.partition(each)
        assert before.strip() == ""
    assert blank.strip() == ""


def test_a_text_is_split_after_a_paragraph_or_else_a_line_a_sentence_or_a_word():
    words = "one two three four"
    assert split_into_passages(f"{words}\n\n{words}", 30) == [f"{words}\n\n", words]
    assert split_into_passages(f"{words}\n{words}", 30) == [f"{words}\n", words]
    assert split_into_passages(f"{words}. {words}", 30) == [f"{words}. ", words]
    assert split_into_passages(f"{words} {words}", 30) == [
        "one two three four one two ",
        "three four",
    ]


def test_no_visible_character_is_split():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    for each in split_into_passages("x" + family * 20 + "e\u0301" * 40, 40):
        assert each[0] not in "\u200d\u0301"
        assert each[-1] != "\u200d"


@pytest.mark.parametrize("way", ["turn", "fact"])
def test_each_passage_is_a_memory_of_the_turn_with_its_fields(sync, way):
    fields = {"author": "user", "timestamp": 5.0, "custom_metadata": {"a": 1}}
    if way == "turn":
        events = [Event("before"), Event(LONG, id="t", **fields), Event("after")]
        added = sync.add_events_to_memory(**ALICE, events=events, session_id="s")
    else:
        entry = MemoryEntry(LONG, id="t", importance=0.5, session_id="s", **fields)
        added = sync.add_memory(**ALICE, memories=["before", entry, "after"])
    assert len(added) == 3
    assert added.left_out == ()
    before, *passages, after = stored(sync)
    assert (before.text, after.text) == ("before", "after")
    assert len(passages) > 3
    assert passages[0].id == added[1]
    assert "".join(each.text for each in passages) == LONG
    assert all(len(each.text.encode()) <= 64 for each in passages)
    for each in passages:
        assert each.custom_metadata == {"a": 1}
        assert (each.author, each.session_id) == ("user", "s")
        assert each.timestamp == passages[0].timestamp


def test_the_end_of_a_long_text_is_found(sync):
    sync.add_events_to_memory(**ALICE, events=[turn(LONG + "\nand a narwhal")])
    (best, *_) = sync.search_memory(**ALICE, query="narwhal").memories
    assert "narwhal" in best.text


def test_passages_are_neighbours_in_the_order_of_the_text(sync):
    events = [turn("first", "1"), turn(LONG, "2"), turn("last", "3")]
    ids = sync.add_session_to_memory(session(*events))
    around = sync.expand_session(**ALICE, memory_id=ids[0], turns_after=20)
    assert "".join(each.text for each in around) == f"first{LONG}last"


def test_a_repeat_changes_nothing(sync):
    first = sync.add_session_to_memory(session(turn(LONG)))
    before = stored(sync)
    assert sync.add_session_to_memory(session(turn(LONG))) == first
    assert stored(sync) == before


@pytest.mark.parametrize("now", ["short", numbered(3), numbered(12, "row"), LONG[:200]])
@pytest.mark.parametrize("way", ["session", "events", "fact"])
def test_a_turn_that_changes_leaves_no_passage_behind(sync, way, now):
    for text in (LONG, now, LONG, now):
        if way == "session":
            sync.add_session_to_memory(session(turn("a", "1"), turn(text)))
        elif way == "events":
            sync.add_events_to_memory(**ALICE, events=[turn("a", "1"), turn(text)])
        else:
            entry = MemoryEntry(text, id="t")
            sync.add_memory(**ALICE, memories=[MemoryEntry("a", id="1"), entry])
        assert joined(sync) == f"a{text}"


def test_a_turn_that_grows_keeps_its_place_in_the_session(sync):
    events = [turn("first", "1"), turn("middle", "2"), turn("last", "3")]
    ids = sync.add_session_to_memory(session(*events))
    events[1] = turn(LONG, "2")
    assert sync.add_session_to_memory(session(*events)) == ids
    around = sync.expand_session(**ALICE, memory_id=ids[0], turns_after=20)
    assert "".join(each.text for each in around) == f"first{LONG}last"


def test_a_rewind_takes_back_every_passage(sync):
    said = {"id": "t", "text": LONG, "invocation_id": "i"}
    sync.add_session_to_memory(session(turn("a", "1"), said))
    back = {"actions": {"rewind_before_invocation_id": "i"}}
    sync.add_session_to_memory(session(turn("a", "1"), said, back))
    assert joined(sync) == "a"


def test_replace_and_the_deletion_of_a_session_take_every_passage(sync):
    sync.add_session_to_memory(session(turn(LONG)))
    sync.add_session_to_memory(session(turn("b", "2")), replace=True)
    assert joined(sync) == "b"
    sync.add_session_to_memory(session(turn(LONG, "3")))
    sync.delete_session(**ALICE, session_id="s")
    assert stored(sync) == []


def test_deleting_the_turn_deletes_every_passage_and_for_good(sync):
    (id_,) = sync.add_session_to_memory(session(turn(LONG)))
    second = stored(sync)[1]
    assert sync.delete_memory(**ALICE, memory_id=second.id)
    assert joined(sync) == LONG.replace(second.text, "")
    assert sync.delete_memory(**ALICE, memory_id=id_)
    assert stored(sync) == []
    for text in (LONG, LONG + "\nand more of it"):
        added = sync.add_session_to_memory(session(turn(text)))
        assert [each.reason for each in added.left_out] == ["deleted"]
        assert stored(sync) == []
    sync.add_session_to_memory(session(turn(LONG)), restore=True)
    assert joined(sync) == LONG


def test_archive_and_restore_are_of_the_whole_turn(sync):
    (id_,) = sync.add_session_to_memory(session(turn(LONG)))
    sync.archive_memory(**ALICE, memory_id=id_)
    assert stored(sync) == []
    restored = sync.restore_memory(**ALICE, memory_id=id_)
    assert joined(sync) == LONG
    assert restored == [each.id for each in stored(sync)]  # in the turn's order


@pytest.mark.parametrize("longer", [numbered(14), "other\n" + numbered(12)])
def test_an_archived_turn_that_comes_again_is_live_whole_or_not_at_all(sync, longer):
    """As a short one: it stays archived until its text is another one."""
    (id_,) = sync.add_session_to_memory(session(turn(LONG)))
    sync.archive_memory(**ALICE, memory_id=id_)
    sync.add_session_to_memory(session(turn(LONG)))
    assert stored(sync) == []
    sync.add_session_to_memory(session(turn(longer)))
    assert joined(sync) == longer
    assert stored(sync, state="archived") == []


def test_a_correction_is_of_one_passage_and_is_not_undone(sync):
    """Whoever corrects what a search found has read no other passage."""
    (id_,) = sync.add_session_to_memory(session(turn(LONG)))
    sync.update_memory(**ALICE, memory_id=id_, custom_metadata={"a": 1})
    assert joined(sync) == LONG
    corrected = LONG
    for number, passage in enumerate(stored(sync)[:2]):
        corrected = corrected.replace(passage.text, f"line {number}")
        sync.update_memory(**ALICE, memory_id=passage.id, content=f"line {number}")
        sync.add_session_to_memory(session(turn(LONG)))
        assert joined(sync) == corrected
    with pytest.raises(LimitExceededError, match="max_text_bytes"):
        sync.update_memory(**ALICE, memory_id=id_, content=LONG)


def test_a_key_makes_a_call_with_passages_idempotent(sync):
    calls = [
        sync.add_events_to_memory(**ALICE, events=[turn(LONG)], idempotency_key="k")
        for _ in range(2)
    ]
    assert calls[0] == calls[1]
    assert joined(sync) == LONG


def test_passages_count_in_the_quota(open_service, tmp_path):
    quota = Quota(memories=4, eviction="reject")
    sync = open_service(tmp_path / "m.db", limits=SHORT, quota=quota).sync
    with pytest.raises(LimitExceededError, match="memories"):
        sync.add_memory(**ALICE, memories=[LONG])
    assert stored(sync) == []


def test_an_observed_turn_has_passages_which_go_with_it(open_service, tmp_path):
    sync = open_service(tmp_path / "m.db", limits=SHORT).sync
    events = [turn("first", "1"), turn(LONG, "2"), turn("last", "3")]
    for _ in range(2):
        sync.observe_session(session(*events))
    ids = sync.end_session(**ALICE, session_id="s")
    assert len(ids) == len(stored(sync))
    assert joined(sync) == f"first{LONG}last"
    sync.observe_session(session(turn(LONG, "4")))
    (made, *_) = sync.add_session_to_memory(session(turn("x" * 65, "5")))
    assert sync.delete_memory(**ALICE, memory_id=made)
    sync.end_session(**ALICE, session_id="s")
    assert joined(sync) == f"first{LONG}last{LONG}"


def test_a_turn_that_waits_is_deleted_with_its_passages(open_service, tmp_path):
    sync = open_service(tmp_path / "m.db", limits=SHORT).sync
    sync.observe_session(session(turn(LONG, "1"), turn("last", "2")))
    back = {"actions": {"rewind_before_invocation_id": "i"}}
    said = {"id": "3", "text": LONG, "invocation_id": "i"}
    sync.observe_session(session(turn(LONG, "1"), turn("last", "2"), said))
    sync.observe_session(session(turn(LONG, "1"), turn("last", "2"), said, back))
    sync.end_session(**ALICE, session_id="s")
    assert joined(sync) == f"{LONG}last"


def test_passages_survive_an_export_and_its_import(open_service, tmp_path):
    sync = open_service(tmp_path / "m.db", limits=SHORT).sync
    (id_,) = sync.add_session_to_memory(session(turn(LONG)))
    sync.admin.export_jsonl(tmp_path / "out.jsonl")
    other = open_service(tmp_path / "other.db", limits=SHORT).sync
    other.admin.import_jsonl(tmp_path / "out.jsonl")
    assert joined(other) == LONG
    other.add_session_to_memory(session(turn("short")))
    assert joined(other) == "short"
    assert other.get_memory(**ALICE, memory_id=id_).text == "short"


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_of_a_session_leave_exactly_the_texts_of_its_turns(sync, seed):
    """Against a plain dictionary of what each turn says now."""
    chance = random.Random(seed)
    said: dict[str, str] = {}
    deleted: set[str] = set()
    for step in range(40):
        id_ = f"t{chance.randrange(6)}"
        doing = chance.choice(["say", "say", "say", "delete", "replace", "again"])
        if doing == "say":
            said[id_] = f"{step} {numbered(chance.choice([1, 2, 5, 9]), f'{id_}x')}"
        elif doing == "delete" and id_ in said:
            sync.delete_memory(**ALICE, memory_id=make_memory_id("s", id_))
            deleted.add(id_)
        elif doing == "replace":
            said.pop(id_, None)
        turns = [turn(text, name) for name, text in said.items()]
        sync.add_session_to_memory(session(*turns), replace=doing == "replace")
        live = [text for name, text in said.items() if name not in deleted]
        found = stored(sync)
        assert sorted("".join(each.text for each in found)) == sorted("".join(live))
        of_turn: dict[str, str] = {}
        for each in found:
            name = each.event_id or ""
            of_turn[name] = of_turn.get(name, "") + each.text
        assert of_turn == {n: t for n, t in said.items() if n not in deleted}


def test_what_supersedes_a_long_text_archives_all_of_it_and_restoring_brings_it_back(
    sync,
):
    (old,) = sync.add_memory(**ALICE, memories=[LONG])
    newer = MemoryEntry("short and new", id="n", supersedes=old)
    sync.add_memory(**ALICE, memories=[newer])
    assert joined(sync) == "short and new"
    assert "".join(each.text for each in stored(sync, state="archived")) == LONG
    assert len(sync.memory_history(**ALICE, memory_id="n")) > 2
    sync.restore_memory(**ALICE, memory_id=old)
    assert LONG in joined(sync)


def test_a_hook_that_makes_passages_longer_loses_none_of_the_text(
    open_service, tmp_path
):
    def mark(write):
        return redact(f"[seen by the hook, and found good] {write.memory.text}")

    writes = WritePolicy(on_write=mark)
    service = open_service(tmp_path / "m.db", limits=SHORT, writes=writes)
    service.sync.add_memory(**ALICE, memories=[LONG])
    kept = joined(service.sync)
    assert kept.count("[seen by the hook, and found good] ") == len(
        split_into_passages(LONG, 64)
    )
    words = kept.replace("[seen by the hook, and found good] ", "").split()
    assert sorted(words) == sorted(LONG.split())


def test_a_text_whose_beginning_was_evicted_is_replaced_as_a_whole(
    open_service, tmp_path
):
    writes = WritePolicy(quota=Quota(memories=3, eviction="oldest"))
    sync = open_service(tmp_path / "m.db", limits=SHORT, writes=writes).sync
    sync.add_memory(**ALICE, memories=[MemoryEntry(LONG, id="L")])
    assert "line 0" not in joined(sync)
    sync.add_memory(**ALICE, memories=[MemoryEntry("short and new", id="L")])
    assert joined(sync) == "short and new"


def test_a_text_whose_beginning_is_held_for_review_is_replaced_as_a_whole(
    open_service, tmp_path
):
    def hold(write):
        return QUARANTINE if "line 0" in write.memory.text else ALLOW

    writes = WritePolicy(on_write=hold)
    service = open_service(tmp_path / "m.db", limits=SHORT, writes=writes)
    user = service.restricted(Rights(review=False)).sync
    user.add_memory(**ALICE, memories=[MemoryEntry(LONG, id="L")])
    user.add_memory(**ALICE, memories=[MemoryEntry("short and new", id="L")])
    assert joined(service.sync) == "short and new"

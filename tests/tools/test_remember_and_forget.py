"""`remember` and `forget_memory`: the tools by which a model changes a memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.lifecycle import kept
from helpers.memories import ALICE, BOB, SECRET, texts
from helpers.tools import SCOPE, Watched, call, ids, run, watched_service
from vecall import Limits, MemoryService
from vecall.errors import ReadOnlyError
from vecall.hooks import REJECT, PendingWrite, Verdict, redact
from vecall.tools import ForgetMemory, PreloadMemory, RecallMemory, Remember

SAID = ["My PIN is okapi.", "I like okapi and tea.", "I like tapirs."]


@pytest.fixture(name="memory")
def memory_fixture() -> Iterator[Watched]:
    yield from watched_service()


def ingest(memory: MemoryService) -> None:
    """Each in a session of its own, as a search also finds what stands beside a hit."""
    for n, text in enumerate(SAID):
        event = {"id": "e", "author": "user", "content": text}
        session = {**ALICE, "id": f"s{n}", "events": [event]}
        memory.sync.add_session_to_memory(session)


def test_what_is_remembered_is_marked_as_written_by_a_tool(memory: Watched):
    """S4.64: its kind and weight are the model's, where it comes from is not."""
    remember = Remember(memory, *SCOPE, author="planner", trust="first-party")
    arguments = {"text": "Likes tea.", "kind": "preference", "importance": 0.25}
    answer = call(remember, arguments)
    assert answer["status"] == "remembered"
    stored = memory.sync.get_memory(**ALICE, memory_id=answer["id"])
    assert (stored.text, stored.kind) == ("Likes tea.", "preference")
    assert (stored.author, stored.source) == ("planner", "tool")
    assert stored.trust == "first-party"
    assert stored.importance == 0.25
    plain = call(Remember(memory, *SCOPE), {"text": "Likes coffee."})
    stored = memory.sync.get_memory(**ALICE, memory_id=plain["id"])
    assert (stored.author, stored.trust, stored.kind) == ("agent", "unknown", None)
    found = call(RecallMemory(memory, *SCOPE), {"query": "tea"})
    assert ids(found) == [answer["id"]]


def test_the_same_text_told_twice_is_one_memory(memory: Watched):
    """S4.64: a model repeats itself."""
    remember = Remember(memory, *SCOPE)
    first = call(remember, {"text": "Likes tea."})
    assert call(remember, {"text": "Likes tea.", "kind": "fact"}) == first
    assert texts(memory, "tea", **ALICE) == ["Likes tea."]


def test_remembering_again_what_was_forgotten_is_not_a_lie(memory: Watched):
    """S4.64: told anew, it is stored anew."""
    remember = Remember(memory, *SCOPE)
    first = call(remember, {"text": "Likes tea."})
    memory.sync.delete_memory(**ALICE, memory_id=first["id"])
    assert call(remember, {"text": "Likes tea."}) == first
    assert texts(memory, "tea", **ALICE) == ["Likes tea."]


def test_what_is_remembered_is_in_the_file(open_service: Callable, tmp_path: Path):
    """S4.64: answered means stored."""
    memory: MemoryService = open_service(tmp_path / "memory.db")
    call(Remember(memory, *SCOPE), {"text": "Likes tea."})
    memory.close()
    assert texts(open_service(tmp_path / "memory.db"), "tea") == ["Likes tea."]


@pytest.mark.parametrize("verdict", [REJECT, redact(" ")])
def test_what_the_write_hook_refuses_is_not_called_remembered(
    open_service: Callable, verdict: Verdict
):
    """S4.64: the gate stands before the tool too, and sees what marks it."""
    seen = []

    def judge(write: PendingWrite) -> Verdict:
        seen.append(write.memory)
        return verdict

    memory: MemoryService = open_service(on_write=judge)
    answer = call(Remember(memory, *SCOPE), {"text": "Likes tea."})
    assert answer == {"status": "not_remembered"}
    assert texts(memory, "tea", **ALICE) == []
    assert [(each.source, each.trust) for each in seen] == [("tool", "unknown")]


def test_a_memory_that_only_reads_says_so(open_service: Callable, tmp_path: Path):
    """S4.64: a tool that writes to it is a mistake in the code, not the model's."""
    open_service(tmp_path / "memory.db").close()
    memory = open_service(tmp_path / "memory.db", read_only=True)
    for tool, arguments in (
        (Remember(memory, *SCOPE), {"text": "Likes tea."}),
        (ForgetMemory(memory, *SCOPE), {"query": "tea"}),
    ):
        with pytest.raises(ReadOnlyError):
            call(tool, arguments)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "text: expected a string"),
        ({"text": {"parts": [{"text": SECRET}]}}, "text: expected a string"),
        ({"text": [SECRET]}, "text: expected a string"),
        ({"text": ""}, "text: must not be blank"),
        ({"text": " \n"}, "text: must not be blank"),
        ({"text": SECRET, "kind": 7}, "kind: expected a string"),
        ({"text": SECRET, "kind": "x" * 65}, "kind: at most max_name_bytes = 64 bytes"),
        ({"text": SECRET, "importance": 1.5}, "importance: must be within [0, 1]"),
        ({"text": SECRET, "importance": float("nan")}, "importance: must be within"),
        ({"text": SECRET, "importance": "high"}, "importance: expected a number"),
    ],
)
def test_what_cannot_be_remembered_is_refused_without_repeating_it(
    open_service: Callable, arguments: dict[str, Any], error: str
):
    """S4.64: the model may mend it; nothing is stored."""
    memory = open_service(limits=Limits(max_text_bytes=64, max_name_bytes=64))
    answer = call(Remember(memory, *SCOPE), arguments)
    assert list(answer) == ["error"]
    assert answer["error"].startswith(error)
    assert SECRET not in answer["error"]
    assert texts(memory, SECRET, **ALICE) == []


def test_a_text_that_is_too_long_is_remembered_in_passages(open_service: Callable):
    memory = open_service(limits=Limits(max_text_bytes=64))
    text = " ".join(f"word{number}" for number in range(30)) + " narwhal"
    (id_,) = [call(Remember(memory, *SCOPE), {"text": text})["id"]]
    stored = memory.sync.list_memories(**ALICE)
    assert "".join(each.text for each in stored) == text
    assert stored[0].id == id_
    assert [each.text for each in stored if "narwhal" in each.text] == texts(
        memory, "narwhal", **ALICE
    )


def test_forgetting_takes_two_steps(memory: Watched):
    """S4.60: the first shows, the second deletes exactly what was shown."""
    ingest(memory)
    forget = ForgetMemory(memory, *SCOPE)
    proposed = call(forget, {"query": "okapi"})
    assert proposed["status"] == "confirm"
    shown = {each["text"] for each in proposed["memories"]}
    assert shown == set(SAID[:2])
    assert len(texts(memory, "okapi", **ALICE)) == 2, "nothing is gone yet"
    memory.sync.add_memory(**ALICE, memories=["okapi, said later"])
    answer = call(forget, {"token": proposed["token"]})
    assert answer == {"status": "forgotten", "count": 2}
    assert texts(memory, "okapi", **ALICE) == ["okapi, said later"]
    assert texts(memory, "tapirs", **ALICE) == SAID[2:]
    again = call(forget, {"token": proposed["token"]})
    assert again == {"status": "unknown_token"}


def test_what_was_forgotten_stays_so_when_its_session_is_ingested_again(
    memory: Watched,
):
    """S4.60: tombstones."""
    ingest(memory)
    forget = ForgetMemory(memory, *SCOPE)
    call(forget, {"token": call(forget, {"query": "PIN"})["token"]})
    ingest(memory)
    assert texts(memory, "PIN okapi tapirs", **ALICE) == SAID[1:]
    assert "PIN" not in run(PreloadMemory(memory, *SCOPE).block("PIN"))


def test_the_token_of_another_user_is_of_no_use(memory: Watched):
    """S4.60: nor that of another app, even where the ids are the same."""
    memory.sync.add_memory(**ALICE, memories=[{"id": "o", "text": "okapi"}])
    token = call(ForgetMemory(memory, *SCOPE), {"query": "okapi"})["token"]
    for scope in (("app", "bob"), ("app2", "alice")):
        names = dict(zip(("app_name", "user_id"), scope, strict=True))
        memory.sync.add_memory(**names, memories=[{"id": "o", "text": "okapi"}])
        answer = call(ForgetMemory(memory, *scope), {"token": token})
        assert answer == {"status": "unknown_token"}
        assert texts(memory, "okapi", **names) == ["okapi"]
    assert texts(memory, "okapi", **ALICE) == ["okapi"]
    answer = call(ForgetMemory(memory, *SCOPE), {"token": token})
    assert answer == {"status": "forgotten", "count": 1}
    assert texts(memory, "okapi", **BOB) == ["okapi"]


def test_at_most_so_many_memories_go_at_once(memory: Watched):
    """S4.60: "forget everything" shows a few and takes a few."""
    forget = ForgetMemory(memory, *SCOPE, max_entries=3)
    proposed = call(forget, {"query": "zebra"})
    assert len(ids(proposed)) == 3
    assert call(forget, {"token": proposed["token"]})["count"] == 3
    left = {
        each.id
        for each in memory.sync.search_memory(**ALICE, query="zebra", top_k=20).memories
    }
    assert left == {f"m{n}" for n in range(10)} - set(ids(proposed))


def test_the_user_may_choose_some_of_what_is_shown(memory: Watched):
    """S4.60: entries have numbers, and only the chosen ids go."""
    forget = ForgetMemory(memory, *SCOPE, max_entries=3)
    proposed = call(forget, {"query": "zebra"})
    assert [each["number"] for each in proposed["memories"]] == [1, 2, 3]
    assert proposed["choose"] is True
    chosen = ids(proposed)[1:2]
    for wrong in ([], ["unknown"], chosen[0], [7], [*chosen, "m99"]):
        answer = call(forget, {"token": proposed["token"], "ids": wrong})
        assert list(answer) == ["error"]
        assert answer["error"].startswith("ids: ")
    assert len(texts(memory, **ALICE)) == 10
    answer = call(forget, {"token": proposed["token"], "ids": chosen})
    assert answer == {"status": "forgotten", "count": 1}
    assert set(ids(proposed)) - set(chosen) <= set(kept(memory))


def test_one_memory_is_no_choice(memory: Watched):
    """S4.60: only the memory that was meant is shown."""
    ingest(memory)
    proposed = call(ForgetMemory(memory, *SCOPE), {"query": "PIN", "ids": []})
    assert [each["number"] for each in proposed["memories"]] == [1]
    assert "choose" not in proposed


def test_nothing_found_needs_no_token(memory: Watched):
    """S4.60: a model is not asked to confirm nothing."""
    forget = ForgetMemory(memory, *SCOPE)
    for query in ("okapi", " ", "?!"):
        answer = call(forget, {"query": query})
        assert answer == {"status": "nothing_found", "memories": []}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "query, token: expected exactly one of them"),
        ({"query": "", "token": ""}, "query, token: expected exactly one of them"),
        ({"query": None, "token": None}, "query, token: expected exactly one of them"),
        ({"query": "zebra", "token": "t"}, "query, token: expected exactly one"),
        ({"query": [SECRET]}, "query: expected a string"),
        ({"token": [SECRET]}, "token: expected a string"),
        ({"token": True}, "token: expected a string"),
        ({"query": "zebra", "ids": ["m1"]}, "ids: expected together with the token"),
        ({"ids": ["m1"]}, "query, token: expected exactly one of them"),
    ],
)
def test_forgetting_wants_a_query_or_a_token(
    memory: Watched, arguments: dict[str, Any], error: str
):
    """S4.60: where both are there nobody knows what is meant, and nothing goes."""
    answer = call(ForgetMemory(memory, *SCOPE), arguments)
    assert answer["error"].startswith(error)
    assert len(texts(memory, **ALICE)) == 10


@pytest.mark.parametrize("blank", [None, ""])
def test_an_argument_left_blank_counts_as_absent(memory: Watched, blank: str | None):
    """S4.60: in strict mode models send every argument."""
    forget = ForgetMemory(memory, *SCOPE)
    token = call(forget, {"query": "zebra one", "token": blank})["token"]
    assert call(forget, {"query": blank, "token": token})["status"] == "forgotten"


@pytest.mark.parametrize("token", ["x", "0" * 64, "\0", "\ud800", "x" * 10_000, " "])
def test_a_token_that_nobody_gave_deletes_nothing(memory: Watched, token: str):
    """S4.60: a guess is no token."""
    call(ForgetMemory(memory, *SCOPE), {"query": "zebra"})
    answer = call(ForgetMemory(memory, *SCOPE), {"token": token})
    assert answer == {"status": "unknown_token"}
    assert len(texts(memory, **ALICE)) == 10


def test_what_a_text_may_replace_is_shown_and_replaced_when_it_is_named(
    memory: Watched,
):
    remember = Remember(memory, *SCOPE)
    old = call(remember, {"text": "The wedding is on 14 June."})["id"]
    new = {"text": "We moved the wedding to <b>21</b> June."}
    answer = call(remember, new)
    (similar,) = answer["similar"]
    assert (similar["id"], similar["says"]) == (old, "update")
    assert similar["text"] == "The wedding is on 14 June."
    assert similar["timestamp"].startswith("20")
    assert "instructions" in answer["note"]
    assert len(texts(memory, "wedding", **ALICE)) == 2
    again = call(remember, {**new, "supersedes": [old]})
    assert again == {"status": "remembered", "id": answer["id"]}
    assert texts(memory, "wedding", **ALICE) == [new["text"]]
    marked = call(remember, {"text": "We moved the wedding to 28 June."})
    assert "<b>" not in marked["similar"][0]["text"]


def test_a_model_replaces_no_memory_of_a_trust_that_is_not_its_own(memory: Watched):
    entry = {"text": "The rent is 700 euros.", "id": "rent", "trust": "first-party"}
    memory.sync.add_memory(**ALICE, memories=[entry])
    remember = Remember(memory, *SCOPE, trust="unverified")
    told = {"text": "The rent is 800 euros.", "supersedes": ["rent"]}
    assert call(remember, told) == {"status": "not_remembered"}
    assert "similar" not in call(remember, {"text": told["text"]})
    assert "rent" in {each.id for each in memory.sync.list_memories(**ALICE)}
    owner = Remember(memory, *SCOPE, trust="first-party")
    assert call(owner, {"text": told["text"]})["similar"][0]["id"] == "rent"
    assert call(owner, told)["status"] == "remembered"
    for bad in ("rent", [7], ["nobody"], [""]):
        assert "supersedes" in call(owner, {**told, "supersedes": bad})["error"]
    assert call(owner, {**told, "supersedes": []})["status"] == "remembered"

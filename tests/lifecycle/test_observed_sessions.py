"""What of an observed session is kept: by the hook, as text, from which framework."""

from __future__ import annotations

import asyncio
import json

import pytest
from helpers.memories import ALICE, SECRET, Held, until
from helpers.observed_sessions import (
    EVERY,
    Llm,
    compaction,
    due,
    grow,
    kept,
    memories,
    rows,
    said,
    summed,
    talk,
)
from helpers.sessions import session, turn, turns
from vecall import (
    Inactivity,
    InvalidArgumentError,
    InvalidTypeError,
    LlmSummaryProvider,
    ReadOnlyError,
    Scopes,
    Verdict,
    WriteHookError,
    redact,
    render,
)

NAMED = {**ALICE, "session_id": "s"}


class Hook:
    """Judges by the words of a text, and writes down what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, write):
        text = write.memory.text
        self.asked.append(text)
        if SECRET in text:
            return redact(text.replace(SECRET, "***"))
        for outcome in ("reject", "quarantine"):
            if outcome in text:
                return Verdict(outcome)
        return Verdict("allow")


JUDGED = [
    turn(1),
    turn(2, "turn reject"),
    turn(3, "turn quarantine word3"),
    turn(4, f"turn {SECRET} word4"),
]


def traces(path, text):
    """The files that hold a text."""
    files = [file for file in path.parent.iterdir() if file.is_file()]
    return [file.name for file in files if text.encode() in file.read_bytes()]


def test_the_hook_judges_observed_turns_before_they_are_kept(open_service, tmp_path):
    """S4.10: what is refused or redacted never reaches the file."""
    path = tmp_path / "m.db"
    service = open_service(path, on_write=Hook())
    service.sync.observe_session(session(*JUDGED))
    assert len(kept(path)) == 3
    service.sync.end_session(session(*JUDGED))
    assert memories(service) == ["turn word1", "turn *** word4"]
    assert memories(service, "quarantined") == ["turn quarantine word3"]
    service.close()
    assert traces(path, SECRET) == traces(path, "reject") == []
    assert traces(path, "word1") == ["m.db"]


def test_a_model_sums_up_only_what_the_hook_lets_through(open_service):
    """S4.44: neither what is refused nor what is held; that stays to be released."""
    llm = Llm()
    service = open_service(on_write=Hook(), summarizer=llm.provider)
    service.sync.end_session(session(*JUDGED))
    (shown,) = llm.asked
    assert [word in shown for word in ("word1", "*** word4")] == [True, True]
    assert not [word for word in (SECRET, "reject", "word3") if word in shown]
    assert memories(service) == [summed(1, 4)]
    (held,) = service.sync.list_memories(**ALICE, state="quarantined")
    service.sync.release_memory(**ALICE, memory_id=held.id)
    assert "turn quarantine word3" in memories(service)


def test_a_session_of_held_turns_only_asks_no_model(open_service):
    """S4.51: nothing to sum up, nobody asked."""
    llm = Llm()
    service = open_service(on_write=Hook(), summarizer=llm.provider)
    service.sync.end_session(session(JUDGED[1], JUDGED[2]))
    assert llm.asked == []
    assert memories(service, "quarantined") == ["turn quarantine word3"]


def test_the_hook_is_asked_about_new_turns_only(open_service):
    """S4.13: observing after every turn asks once for each, refused ones too."""
    hook = Hook()
    service = open_service(on_write=hook)
    for count in range(1, 5):
        service.sync.observe_session(session(*JUDGED[:count]))
    assert hook.asked == [event["text"] for event in JUDGED]


def test_a_redacted_turn_is_the_same_memory_however_it_is_told(open_service):
    """S1.4: observed and ingested, one turn without an id is one memory."""
    event = {"author": "user", "timestamp": 1.0, "text": f"turn {SECRET}"}
    service = open_service(on_write=Hook())
    service.sync.observe_session(session(event))
    service.sync.end_session(**NAMED)
    service.sync.add_session_to_memory(session(event))
    assert memories(service) == ["turn ***"]


def test_a_failing_hook_keeps_nothing(open_service, tmp_path):
    """S4.10: what nobody judged is not written down."""

    def fail(write):
        raise RuntimeError(write.memory.text)

    service = open_service(tmp_path / "m.db", on_write=fail)
    with pytest.raises(WriteHookError) as caught:
        service.sync.observe_session(talk(1))
    assert "word1" not in str(caught.value)
    assert kept(tmp_path / "m.db") == []


def test_a_refused_turn_makes_nothing_due(open_service, tmp_path):
    """S4.18: a session of which nothing waits has no time at which it is due."""
    service = open_service(
        tmp_path / "m.db", on_write=Hook(), trigger=Inactivity(EVERY)
    )
    service.sync.observe_session(session(JUDGED[1]))
    assert due(tmp_path / "m.db") == []
    service.sync.observe_session(session(JUDGED[0]))
    assert len(due(tmp_path / "m.db")) == 1


def test_a_held_turn_that_a_compaction_covers_stays_to_be_released(open_service):
    """S4.20: the framework's text says nothing about what was held back."""
    service = open_service(on_write=Hook(), trigger="compaction")
    events = [*JUDGED[:3], compaction("zebra room", 1.0, 3.0)]
    service.sync.observe_session(session(*events))
    service.sync.end_session(**NAMED)
    assert memories(service) == ["zebra room"]
    assert memories(service, "quarantined") == ["turn quarantine word3"]


@pytest.mark.parametrize("call", ["observe_session", "end_session"])
def test_a_service_that_only_reads_observes_nothing(open_service, tmp_path, call):
    """S4.10: read_only holds for what waits as for memories."""
    path = tmp_path / "m.db"
    with open_service(path) as service:
        service.sync.add_memory(**ALICE, memories=["zebra"])
    service = open_service(path, read_only=True)
    with pytest.raises(ReadOnlyError):
        getattr(service.sync, call)(talk(1))
    with pytest.raises(ReadOnlyError):
        service.sync.admin.run_due()
    assert kept(path) == []


def test_sessions_are_a_users_own_whatever_scopes_may_be_written(open_service):
    """S4.10: turns are never kept for others."""
    scopes = Scopes(read={"shared", "app"}, write={"shared", "app"})
    service = open_service(scopes=scopes)
    service.sync.end_session(talk(1))
    assert memories(service) == said(1)
    for scope in ("shared", "app"):
        assert service.sync.list_memories(**ALICE, scope=scope) == []


def test_recalled_text_is_not_kept(open_service, tmp_path):
    """S4.10: memory never feeds on itself, by way of a trigger neither."""
    service = open_service(tmp_path / "m.db")
    service.sync.add_memory(**ALICE, memories=["zebra fact"])
    answer = service.sync.search_memory(**ALICE, query="zebra")
    for style in ("past_conversations", "secure", "json"):
        block = render(answer.memories, style)
        assert "zebra fact" in block
        service.sync.observe_session(
            session(turn(1, f"{block}\nturn own"), turn(2, block), id_=style)
        )
    assert len(kept(tmp_path / "m.db")) == 3
    assert "zebra" not in " ".join(kept(tmp_path / "m.db"))


def test_what_nobody_said_is_not_kept(open_service, tmp_path):
    """S4.10: thoughts, calls, their results, pieces of a stream, blanks."""
    parts = [
        [{"text": "secret thought", "thought": True}],
        [{"functionCall": {"name": "f", "args": {"x": "argument"}}}],
        [{"functionResponse": {"name": "f", "response": {"x": "result"}}}],
        [{"text": " \n"}],
    ]
    events = [
        {"id": f"x{number}", "author": "bot", "content": {"parts": each}}
        for number, each in enumerate(parts)
    ]
    mixed = {"parts": [*parts[0], *parts[1], {"text": "turn said"}]}
    events.append({"id": "m", "author": "bot", "content": mixed})
    events.append({"id": "p", "author": "bot", "text": "turn", "partial": True})
    service = open_service(tmp_path / "m.db")
    service.sync.observe_session(session(*events))
    (event,) = kept(tmp_path / "m.db")
    assert json.loads(event)["content"] == "turn said"


FULL = {
    "id": "full",
    "author": "user",
    "timestamp": 7.25,
    "kind": "fact",
    "source": "phone",
    "trust": "high",
    "importance": 0.75,
    "content": {"role": "user", "parts": [{"text": "turn one"}, {"text": "zwei ü"}]},
    "custom_metadata": {"room": 7, "tags": ["a", None], "ttl": 3600},
}
COLUMNS = (
    "id, session, event, ts, author, kind, source, trust, text, content, meta, "
    "importance_prior, expires_at - created_at < 3601, hash"
)


@pytest.mark.parametrize("event", [FULL, {**FULL, "id": None}, {"text": "turn x"}])
def test_an_observed_turn_becomes_the_memory_that_an_ingest_makes(
    open_service, tmp_path, event
):
    """S1.4, S4.10: every field, and the same id."""
    found = []
    for name in ("observed", "ingested"):
        with open_service(tmp_path / f"{name}.db") as service:
            if name == "observed":
                service.sync.observe_session(session(event))
                service.sync.end_session(**NAMED)
            else:
                service.sync.add_session_to_memory(session(event))
        found.append(rows(tmp_path / f"{name}.db", f"SELECT {COLUMNS} FROM mem"))
    assert found[0] == found[1]
    assert len(found[0]) == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"app_name": "", "user_id": "u", "id": "s"}, InvalidArgumentError),
        ({**ALICE, "id": "s", "events": "text"}, InvalidTypeError),
        ({**ALICE, "id": "s", "events": [7]}, InvalidTypeError),
        ({**ALICE, "id": "s", "events": [{"text": 7}, {"text": ""}]}, InvalidTypeError),
    ],
)
def test_a_session_of_which_no_turn_can_be_read_is_refused(
    open_service, tmp_path, bad, error
):
    service = open_service(tmp_path / "m.db")
    with pytest.raises(error):
        service.sync.observe_session(bad)
    assert kept(tmp_path / "m.db") == []


@pytest.mark.parametrize("bad", [7, {"text": 7}, {"text": "x", "importance": 2}])
def test_a_turn_that_cannot_be_read_costs_an_observed_session_no_other(
    open_service, bad
):
    sync = open_service().sync
    sync.observe_session(session(turn(1), bad, turn(2)))
    sync.end_session(**NAMED)
    texts = [each.text for each in sync.list_memories(**ALICE)]
    assert texts == [turn(1)["text"], turn(2)["text"]]


def test_camel_case_sessions_are_observed(open_service):
    """S4.20: google-adk's own JSON."""
    service = open_service()
    told = {
        "appName": "app",
        "userId": "alice",
        "id": "s",
        "events": [{"id": "e", "content": {"parts": [{"text": "turn camel"}]}}],
    }
    service.sync.observe_session(told)
    service.sync.end_session(**NAMED)
    assert memories(service) == ["turn camel"]


def test_real_adk_sessions_are_observed_with_their_compactions(open_service):
    """S4.20, S4.49: google-adk's own classes."""
    pytest.importorskip("google.adk")
    from google.adk.events import EventActions
    from google.adk.events.event_actions import EventCompaction
    from google.genai import types
    from helpers import adk

    content = types.Content(role="model", parts=[types.Part(text="zebra room")])
    compacted = adk.an_event(
        id="c",
        timestamp=3.0,
        actions=EventActions(
            compaction=EventCompaction(
                start_timestamp=1.0, end_timestamp=2.0, compacted_content=content
            )
        ),
    )
    thought = types.Part(text="turn thought", thought=True)
    call = types.Part(function_call=types.FunctionCall(name="f", args={}))
    events = [
        adk.an_event("turn word1", id="e1", timestamp=1.0),
        adk.an_event(thought, call, id="e2", timestamp=2.0, author="bot"),
        compacted,
        adk.an_event("turn word4", id="e4", timestamp=4.0),
    ]
    service = open_service(trigger="compaction")
    told = adk.a_session(*events, id="s", **ALICE)
    assert len(service.sync.observe_session(told)) == 1
    service.sync.end_session(told)
    assert memories(service) == ["zebra room", "turn word4"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_slow_model_blocks_no_coroutine(open_service, asynchronous):
    """S4.22: the model waits for a coroutine of the very loop that waits for it."""
    held = Held()

    def plain(prompt):
        held.embed([prompt])
        return json.dumps({"summary": "zebra"})

    async def slow(prompt):
        return plain(prompt)

    llm = slow if asynchronous else plain
    service = open_service(
        summarizer=LlmSummaryProvider(llm),
        trigger={"type": "message_count", "message_count": 1},
        maintenance_interval=None,
    )

    async def work():
        await service.observe_session(talk(1))
        for call in (service.admin.run_due(), service.end_session(talk(1, 2))):
            held.entered.clear()
            held.go_on.clear()
            task = asyncio.ensure_future(call)
            await until(held.entered.is_set)
            assert len(await service.list_memories(**ALICE)) == memories_before[0]
            await service.observe_session(talk(1, id_="other"))
            assert not task.done()
            held.go_on.set()
            await task
            memories_before[0] += 1

    memories_before = [0]
    asyncio.run(work())


def test_many_turns_are_read_off_the_loop_and_kept_in_order(open_service, tmp_path):
    """S4.13: a long session, observed at once."""
    service = open_service(tmp_path / "m.db")
    service.sync.observe_session(session(*turns(*range(1, 201))))
    grow(service, 3)
    service.sync.end_session(**NAMED)
    assert memories(service) == said(*range(1, 201))

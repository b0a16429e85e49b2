"""Keeping a memory small: what says the same is merged, what is old is summed up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.clocks import DAY, START, SettableClock
from helpers.embedders import Recorder, session
from helpers.lifecycle import add, everything, found, get, kept, past
from helpers.memories import ALICE, BOB
from helpers.summaries import Scripted, SlowScripted
from vecall import (
    ConfigError,
    Consolidation,
    MemoryEntry,
    MemoryService,
    NotFoundError,
    SummaryError,
)
from vecall.summaries import LlmSummaryProvider

TRIP = ("I fly to Rome.", "Noted.", "A window seat.")


def merge(service: MemoryService) -> Consolidation:
    return service.sync.consolidate(**ALICE)


def fold(service: MemoryService, *answers: Any, **more: Any) -> Consolidation:
    """Sum up sessions of which nothing was heard for a week."""
    provider = LlmSummaryProvider(Scripted(*answers))
    more = {"older_than": 7 * DAY, "summarizer": provider, **more}
    return service.sync.consolidate(**ALICE, **more)


def told(service: MemoryService, *texts: str, **more: Any) -> list[str]:
    return service.sync.add_session_to_memory(session(*(texts or TRIP), **more))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tea.", "I like tea."),
        ("I like tea.", "i LIKE tea"),
        ("I like tea", "  I   like\ntea!  "),
        ("Meet me at the café", "meet me at the cafe\u0301..."),
        ("ich mag Äpfel", "Ich mag A\u0308pfel."),
        ("Please, I really like the tea", "I like tea"),
        ("It costs 1,500.50", "it costs 1,500.50!"),
        ("call +39 06 1234", "Call +39 06 1234."),
        ("我喜欢茶。", "我喜欢茶"),
        ("it's Ann's tea", "It\u2019s Ann\u2019s tea."),
    ],
)
def test_what_says_the_same_is_merged(open_service, one, other):
    """S4.59: case, punctuation, accents, spaces and fillers do not count."""
    service = open_service()
    add(service, one, "a", timestamp=1.0)
    add(service, other, "b", timestamp=2.0)
    assert merge(service) == Consolidation(merged=1)
    assert kept(service) == {"b": other}
    assert kept(service, "archived") == {"a": one}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("room 12", "room 21"),
        ("it is 5 degrees", "it is -5 degrees"),
        ("it is 5 degrees", "it is \u22125 degrees"),
        ("it costs 1.5", "it costs 15"),
        ("it costs 1.5", "it costs 1 5"),
        ("it costs 1.5", "it costs 1,5"),
        ("at 10:30", "at 10 30"),
        ("costs $5", "costs €5"),
        ("5%", "5"),
        ("I like tea", "I do not like tea"),
        ("I like tea", "I don't like tea"),
        ("I like tea", "I never like tea"),
        ("He is not just a doctor", "He is not a doctor"),
        ("I have a few friends", "I have few friends"),
        ("from Rome to Paris", "from Paris to Rome"),
        ("to Paris from Rome", "to Rome from Paris"),
        ("Ann likes Bob", "Bob likes Ann"),
        ("tea or coffee", "tea and coffee"),
        ("I write C++", "I write C#"),
        ("I write C++", "I write C"),
        ("x = y", "x != y"),
        ("x = y", "x \u2260 y"),
        ("run if ready", "run if !ready"),
        ("from C++ to C", "from C to C++"),
        ("You like tea.", "You like tea?"),
        ("I feel \U0001f600", "I feel \U0001f622"),
        ("Springfield, OH", "Springfield, OK"),
        ("Ann's tea and Bob's", "Bob's tea and Ann's"),
        ("!!!", "..."),
        ("我不喜欢茶", "我喜欢茶"),
    ],
)
def test_what_says_something_else_is_never_merged(open_service, one, other):
    """S4.59: numbers, negation, order, signs."""
    service = open_service()
    add(service, one, "a")
    add(service, other, "b")
    assert merge(service) == Consolidation()
    assert kept(service) == {"a": one, "b": other}


@pytest.mark.parametrize("field", ["author", "kind", "trust"])
def test_facts_of_different_origin_are_never_merged(open_service, field):
    """S4.59: who said it, what it is and how far it is trusted makes a difference."""
    service = open_service()
    add(service, "I like tea", "a", **{field: "one"})
    add(service, "I like tea", "b", **{field: "two"})
    add(service, "I like tea", "c")
    assert merge(service) == Consolidation()


def test_turns_and_other_users_are_left_alone(open_service):
    """S4.59: what was said around a turn belongs to it."""
    service = open_service()
    told(service, "yes", "I like tea", "yes")
    add(service, "I like tea", "fact", author="user", kind="episode")
    service.sync.add_memory(**BOB, memories=[MemoryEntry("tea", id="a"), "Tea!"])
    before = everything(service), everything(service, **BOB)
    assert merge(service) == Consolidation()
    assert before == (everything(service), everything(service, **BOB))


def test_the_newest_counts_for_all(open_service, tmp_path):
    """S4.59: uses summed, the highest importance, the last use, the latest end."""
    clock = SettableClock()
    service = open_service(tmp_path / "m.db", clock=clock, maintenance_interval=None)
    add(service, "likes tea", "a", importance=0.9, timestamp=1.0)
    add(service, "Likes tea", "b", importance=0.2, timestamp=3.0)
    add(service, "likes tea!", "c", timestamp=2.0)
    for ids in (["a", "b"], ["a"], ["c"]):
        clock.let_pass(10.0)
        service.sync.mark_used(**ALICE, memory_ids=ids)
    last = clock.wall()
    clock.let_pass(10.0)
    assert merge(service).merged == 2
    assert kept(service) == {"b": "Likes tea"}
    assert kept(service, "archived") == {"a": "likes tea", "c": "likes tea!"}
    assert get(service, "b").updated_at == clock.wall()
    service.sync.admin.export_jsonl(tmp_path / "all.jsonl")
    lines = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    (row,) = (line["mem"] for line in lines if line.get("mem", {}).get("id") == "b")
    assert (row["uses"], row["importance"], row["last_used"]) == (4, 0.9, last)
    before = everything(service)
    assert merge(service) == Consolidation()
    assert everything(service) == before
    assert service.sync.restore_memory(**ALICE, memory_id="a") == ["a"]
    assert kept(service) == {"a": "likes tea", "b": "Likes tea"}


@pytest.mark.parametrize(
    "end", [{"custom_metadata": {"ttl": 60}}, {"valid_until": START + 60}]
)
def test_a_brief_fact_does_not_shorten_a_lasting_one(open_service, end):
    """S4.59: what was told without an end goes on being found."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    add(service, "likes tea", "a", timestamp=1.0)
    add(service, "Likes tea", "b", timestamp=2.0, **end)
    assert merge(service).merged == 1
    clock.let_pass(61.0)
    service.sync.admin.run_due()
    assert found(service, "tea") == {"Likes tea"}


def test_what_was_merged_stays_away_when_it_is_told_again(open_service, tmp_path):
    """S4.59, S4.65: no call of the embedder, also after a restart."""
    embedder = Recorder()
    service = open_service(tmp_path / "m.db", embedder=embedder)
    add(service, "likes tea", "a", timestamp=1.0)
    add(service, "Likes tea", "b", timestamp=2.0)
    merge(service)
    service.close()
    service = open_service(tmp_path / "m.db", embedder=embedder)
    embedder.asked.clear()
    add(service, "likes tea", "a", timestamp=1.0)
    assert kept(service) == {"b": "Likes tea"}
    assert embedder.asked == []


def test_old_sessions_are_summed_up(open_service):
    """S4.59: the summary is found, the turns are kept; a recent session stays."""
    clock = SettableClock()
    service = open_service(clock=clock, embedder=Recorder(), maintenance_interval=None)
    ids = told(service)
    clock.let_pass(7 * DAY + 1.0)
    recent = told(service, "fresh news", id_="t")
    llm = Scripted("Flies to Rome, at the window.")
    done = fold(service, summarizer=LlmSummaryProvider(llm))
    (summary,) = done.summaries
    assert (done.merged, done.folded) == (0, 3)
    (asked,) = llm.asked
    assert all(text in asked for text in TRIP)
    assert "fresh" not in asked
    assert kept(service) == {
        recent[0]: "fresh news",
        summary: get(service, summary).text,
    }
    assert get(service, summary).kind == "summary"
    assert get(service, summary).session_id == "s"
    assert list(kept(service, "archived")) == ids
    assert found(service, "window.") == {"Flies to Rome, at the window."}
    assert {why for _, _, why in past(service, summary)} == {"folded", None}
    assert fold(service) == Consolidation()  # nothing is left, so nobody is asked
    told(service)  # the callback, once more
    assert list(kept(service, "archived")) == ids


def test_a_summary_gives_the_turns_back(open_service, tmp_path):
    """S4.59: in their order, also after a restart; and can be made once more."""
    clock = SettableClock()
    options = {"clock": clock, "maintenance_interval": None}
    service = open_service(tmp_path / "m.db", **options)
    ids = told(service)
    clock.let_pass(8 * DAY)
    (summary,) = fold(service, "sumword").summaries
    service.close()
    service = open_service(tmp_path / "m.db", **options)
    assert set(service.sync.restore_memory(**ALICE, memory_id=summary)) == set(ids)
    assert list(kept(service)) == ids
    assert kept(service, "archived") == {}
    assert found(service, "sumword") == set()
    around = service.sync.expand_session(**ALICE, memory_id=ids[1])
    assert [turn.id for turn in around] == ids
    with pytest.raises(NotFoundError):
        service.sync.restore_memory(**ALICE, memory_id=summary)
    assert fold(service, "once more").summaries == (summary,)
    assert found(service, "once") == {"once more"}


def test_several_summaries_of_a_session_become_one_memory(open_service):
    """S4.59, S4.65: which says what each of them says, and gives the turns back."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    ids = told(service)
    clock.let_pass(8 * DAY)
    answer = (
        '{"summary": "one gnu", "topics": ["x", "y"], "keyFacts": ["grey"]} '
        '{"summary": "two okapis", "topics": ["y", "z"], "keyFacts": ["striped"]}'
    )
    (summary,) = fold(service, answer).summaries
    entry = get(service, summary)
    assert all(word in entry.text for word in "one gnu two okapis grey striped".split())
    assert entry.custom_metadata["topics"] == ["x", "y", "z"]
    assert entry.custom_metadata["event_count"] == 3
    service.sync.restore_memory(**ALICE, memory_id=summary)
    assert list(kept(service)) == ids


@pytest.mark.parametrize("model", [Scripted, SlowScripted])
def test_a_failing_model_leaves_the_session_as_it_was(open_service, model):
    """S4.59: those before it are summed up, and another try goes on."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    told(service, "first gnu", id_="a")
    second = told(service, "second gnu", id_="b")
    clock.let_pass(8 * DAY)
    llm = model("fine", ValueError("gnu"), "fine too")
    with pytest.raises(SummaryError) as caught:
        fold(service, summarizer=LlmSummaryProvider(llm))
    assert "gnu" not in str(caught.value)
    assert set(kept(service).values()) == {"fine", "second gnu"}
    assert second[0] in kept(service)
    done = fold(service, summarizer=LlmSummaryProvider(llm))
    assert (done.folded, len(llm.asked)) == (1, 3)
    assert set(kept(service).values()) == {"fine", "fine too"}


@pytest.mark.parametrize(
    ("tiers", "trust"),
    [
        (["low", "low"], "low"),
        (["low", "verified"], None),
        ([None, "verified"], None),
        ([None, None], None),
    ],
)
def test_a_summary_is_trusted_no_more_than_its_turns(open_service, tiers, trust):
    """S4.59: turns of different trust give one that nobody vouches for."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    events = [
        {"id": f"e{n}", "author": "user", "text": f"gnu {n}", "trust": tier}
        for n, tier in enumerate(tiers)
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": events})
    clock.let_pass(8 * DAY)
    (summary,) = fold(service, "Gnus.").summaries
    assert get(service, summary).trust == trust


def test_who_sums_up_must_be_given(open_service):
    """S4.59: nothing is done without; the service's own is taken otherwise."""
    clock = SettableClock()
    options = {"clock": clock, "maintenance_interval": None}
    service = open_service(**options)
    told(service)
    add(service, "tea", "a")
    add(service, "Tea", "b")
    clock.let_pass(8 * DAY)
    before = everything(service)
    with pytest.raises(ConfigError):
        fold(service, summarizer=None)
    assert everything(service) == before
    provider = LlmSummaryProvider(Scripted("By the service's model"))
    service = open_service(**options, summarizer=provider)
    service.sync.add_events_to_memory(
        **ALICE, session_id="s", events=session(*TRIP)["events"]
    )
    clock.let_pass(8 * DAY)
    assert fold(service, summarizer=None).folded == 3
    assert found(service, "model") == {"By the service's model"}


def test_a_turn_that_goes_while_it_is_summed_up_is_in_no_summary(open_service):
    """S4.59, S4.60: what is deleted meanwhile does not live on in other words."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    ids = told(service)

    def model(_: str) -> str:
        service.sync.delete_memory(**ALICE, memory_id=ids[0])
        return "Flies to Rome."

    clock.let_pass(8 * DAY)
    done = fold(service, summarizer=LlmSummaryProvider(model))
    assert done.summaries == ()
    assert list(kept(service)) == ids[1:]
    assert kept(service, "archived") == {}
    assert fold(service, "Wants a window.").folded == 2


def test_what_expires_does_not_live_on_in_a_summary(open_service):
    """S4.59: expired turns are shown to nobody, brief ones end as they would."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)

    def tell(id_: str, **ttls: float | None) -> None:
        events = [
            {"id": name, "author": "user", "text": f"gnu {name}"}
            | ({} if ttl is None else {"custom_metadata": {"ttl": ttl}})
            for name, ttl in ttls.items()
        ]
        service.sync.add_session_to_memory({**ALICE, "id": id_, "events": events})

    tell("mixed", gone=DAY, brief=30 * DAY, lasting=None)
    tell("ending", first=20 * DAY, second=30 * DAY)
    clock.let_pass(8 * DAY)
    llm = Scripted("short", "long")
    done = fold(service, summarizer=LlmSummaryProvider(llm))
    assert done.folded == 3
    assert "gnu gone" not in "".join(llm.asked)
    assert set(kept(service).values()) == {"gnu brief", "short", "long"}
    clock.let_pass(12 * DAY)
    assert set(kept(service).values()) == {"gnu brief", "long"}


def test_a_memory_that_expires_while_the_model_writes_stops_the_summary(open_service):
    """What it said may be in the summary, which must not outlive it."""
    clock = SettableClock()
    service = open_service(clock=clock, maintenance_interval=None)
    events = [
        {"id": name, "author": "user", "text": f"gnu {name}"}
        | {"custom_metadata": {"ttl": days * DAY}}
        for name, days in (("first", 10), ("second", 20))
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": events})
    clock.let_pass(8 * DAY)

    class Slow(Scripted):
        def __call__(self, prompt: str) -> Any:
            clock.let_pass(3 * DAY)
            return super().__call__(prompt)

    done = fold(service, summarizer=LlmSummaryProvider(Slow("a summary")))
    assert (done.folded, done.summaries) == (0, ())
    assert set(kept(service).values()) == {"gnu second"}
    assert service.sync.admin.stats()["archived"] == 0

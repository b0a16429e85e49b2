"""Random answers and random sessions, against what plain code says of them."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from helpers.campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vecall import SummaryError
from vecall.summaries import (
    CompactionAwareSummaryProvider,
    LlmSummaryProvider,
    SessionSummary,
)

seeded = settings(max_examples=examples(300), deadline=None, derandomize=True)

SESSION = {"events": [{"author": "user", "content": "Hi."}]}

# Text that comes near to JSON, so that every branch of the reading is met.
pieces = st.sampled_from(
    [*'{}[]":,\\ \n', "```json\n", "```", "null", "1", '"summary"', '"x"', "\ud800"]
)
nearly_json = st.lists(pieces, max_size=30).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["summary", "topics", "keyFacts", "key_facts", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
answers = st.text() | nearly_json | values.map(json.dumps)
said = st.text(alphabet='abc \u00e9\U0001f99c{}[]"\\\n`', min_size=1).filter(str.strip)
lists = st.lists(said.map(str.strip), max_size=4)


def summarized(answer: str) -> list[SessionSummary]:
    found = LlmSummaryProvider(lambda _: answer).get_summaries(SESSION)
    assert isinstance(found, list)
    return found


BLANK = re.compile(r'"summary"\s*:\s*"(\s|\\[a-z0-9]+)*"')


@pytest.mark.campaign
@seeded
@given(answers)
def test_no_answer_makes_the_reading_fail_or_gets_lost(answer):
    """S4.48: only what is blank gives no summary."""
    try:
        found = summarized(answer)
    except SummaryError:
        assert not answer.strip() or BLANK.search(answer)
        return
    assert found
    for one in found:
        for text in (one.summary, *one.topics, *one.key_facts):
            assert text.strip() == text != ""
            text.encode()
    if '"summary"' not in answer:
        kept = answer.strip().encode("utf-16", "surrogatepass")
        assert [one.summary for one in found] == [kept.decode("utf-16", "replace")]


@pytest.mark.campaign
@seeded
@given(
    st.lists(st.tuples(said.map(str.strip), lists, lists), min_size=1, max_size=4),
    st.sampled_from(["keyFacts", "key_facts"]),
    st.sampled_from(["%s", "```json\n%s\n```", "Well, {here} [it] is: %s\nBye}"]),
    st.booleans(),
)
def test_every_well_formed_summary_is_read_back(summaries, facts, wrap, indented):
    """S4.48: in order, each once, whatever stands around it."""
    objects = [{"summary": s, "topics": t, facts: f} for s, t, f in summaries]
    given_: Any = objects[0] if len(objects) == 1 else objects
    answer = wrap.replace("%s", json.dumps(given_, indent=2 if indented else None))
    found = [
        (one.summary, list(one.topics), list(one.key_facts))
        for one in summarized(answer)
    ]
    assert found == [s for i, s in enumerate(summaries) if s not in summaries[:i]]


times = st.none() | st.integers(0, 12).map(float)
texts = st.sampled_from(["", " ", "a", "b"])
ordinary = st.builds(lambda at: ("said", at), times)
compactions = st.builds(
    lambda text, start, end, at: ("compacted", text, start, end, at),
    texts,
    times,
    times,
    times,
)
programs = st.lists(ordinary | compactions, max_size=12)


def as_event(index: int, step: tuple[Any, ...]) -> dict[str, Any]:
    if step[0] == "said":
        return {"id": index, "timestamp": step[1], "content": f"turn {index}"}
    _, text, start, end, at = step
    content = {"parts": [{"text": text}]}
    compaction = {"start_timestamp": start, "end_timestamp": end}
    actions = {"compaction": compaction | {"compacted_content": content}}
    return {"id": index, "timestamp": at, "content": None, "actions": actions}


def expected_rest(steps: list[tuple[Any, ...]]) -> list[int]:
    """Which turns no compaction covers, one question after the other."""
    real = [i for i, s in enumerate(steps) if s[0] == "compacted" and s[1].strip()]
    rest = []
    for index, step in enumerate(steps):
        if step[0] != "said":
            continue
        if step[1] is None:
            covered = any(other > index for other in real)
        else:
            ends = [steps[other][3] for other in real]
            covered = any(end is not None and step[1] <= end for end in ends)
        if not covered:
            rest.append(index)
    return rest


@pytest.mark.campaign
@seeded
@given(programs)
def test_sessions_are_parted_as_the_plain_rules_say(steps):
    """S4.49-S4.52: unsorted events, missing times, blank and repeated compactions."""
    shown: list[list[int]] = []

    class Watching:
        def get_summaries(self, session: Any) -> list[SessionSummary]:
            shown.append([event["id"] for event in session["events"]])
            return [SessionSummary("rest")]

    session = {"events": [as_event(i, step) for i, step in enumerate(steps)]}
    found = CompactionAwareSummaryProvider(Watching()).get_summaries(session)
    assert isinstance(found, list)

    rest = expected_rest(steps)
    assert shown == ([rest] if rest else [])
    assert [one.summary for one in found if one.summary == "rest"] == ["rest"] * len(
        shown
    )
    compacted = found[: len(found) - len(shown)]
    told = [(one.summary, one.start_timestamp, one.end_timestamp) for one in compacted]
    real = [s[1:4] for s in steps if s[0] == "compacted" and s[1].strip()]
    assert set(told) == set(real)
    assert len(told) == len(set(real))
    for one, following in itertools.pairwise(compacted):
        assert known_start(one) <= known_start(following)


def known_start(one: SessionSummary) -> float:
    for time in (one.start_timestamp, one.end_timestamp):
        if time is not None:
            return time
    return float("inf")

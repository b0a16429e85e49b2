"""What `vecall eval` reads: pieces of evidence, memories without a session, halves."""

from __future__ import annotations

import json

import pytest
from helpers.evaluations import runner, written
from vecall.errors import InvalidArgumentError
from vecall.evaluation.datasets import (
    Conversation,
    Question,
    accept_both_halves,
    read_beam,
    read_jsonl,
)
from vecall.prompts.render import estimate_tokens
from vecall.types import Event, Session

CHAT = {
    "user": "u",
    "sessions": [
        {
            "id": "s1",
            "events": [
                ["a", "user", 1.0, "The kettle is green."],
                ["b", "assistant", 2.0, "A green kettle, noted."],
                ["c", "user", 3.0, "And the tractor is red."],
            ],
        }
    ],
    "questions": [
        {"text": "Which kettle?", "category": "x", "groups": [["a", "b"], ["c"]]}
    ],
    "unanswerable": ["Who owns the piano?"],
}
FACTS = [
    {
        "user_id": "u",
        "id": "f1",
        "timestamp": 1,
        "kind": "fact",
        "memory": "Red kettle",
    },
    {"user_id": "u", "id": "f2", "timestamp": 2, "memory": "Blue piano"},
    {"user_id": "u", "question": "piano?", "category": "x", "evidence": ["f2"]},
]


@pytest.fixture
def run(capsys):
    return runner(capsys)


def test_beam_s_groups_are_pieces_of_which_one_id_is_enough(tmp_path, run):
    file = tmp_path / "beam.json"
    file.write_text(json.dumps({"conversations": [CHAT]}))
    (told,) = read_beam(file, "app")
    asked, strange = told.questions
    assert asked.evidence_pieces == ({"a", "b"}, {"c"})
    assert asked.evidence == {"a", "b", "c"}
    assert not strange.evidence
    figures = run("beam", file, "--modes", "lexical", "--no-ablation", "--json")
    assert (figures["turns"], figures["questions"]) == (3, 1)
    lexical = figures["modes"]["lexical"]
    assert lexical["recall@10"] == lexical["mrr"] == 1.0
    texts = [text for *_, text in CHAT["sessions"][0]["events"]]
    assert lexical["tokens"] <= sum(map(estimate_tokens, texts))


def test_a_question_is_asked_before_the_sessions_that_come_after_it(tmp_path, run):
    """RealMem's queries are turns of a later session, which they would find."""
    later = {
        "id": "s2",
        "events": [["d", "user", 9.0, "The kettle was green, as I told you."]],
    }
    asked = {
        "text": "The kettle was green, as I told you.",
        "category": "x",
        "groups": [["a"]],
    }
    chat = {**CHAT, "sessions": [*CHAT["sessions"], later], "unanswerable": []}
    for after, first in ((1, 1.0), (None, 0.5)):
        one = asked if after is None else {**asked, "after": after}
        file = tmp_path / f"{after}.json"
        file.write_text(json.dumps({"conversations": [{**chat, "questions": [one]}]}))
        (told,) = read_beam(file, "app")
        assert told.questions[0].before == (None if after is None else 9.0)
        figures = run("beam", file, "--modes", "lexical", "--no-ablation", "--json")
        assert figures["modes"]["lexical"]["mrr"] == first


@pytest.mark.parametrize("document", ["[]", "{}", '{"conversations": [{}]}', "no"])
def test_another_shape_than_beam_s_is_refused(tmp_path, document):
    file = tmp_path / "beam.json"
    file.write_text(document)
    with pytest.raises(InvalidArgumentError, match="BEAM"):
        read_beam(file, "app")


def test_memories_without_a_session_are_found_by_their_ids(tmp_path, run):
    file = written(tmp_path / "facts.jsonl", FACTS)
    (told,) = read_jsonl(file, "app")
    assert not told.sessions
    assert [(one.id, one.kind) for one in told.memories] == [
        ("f1", "fact"),
        ("f2", None),
    ]
    figures = run("jsonl", file, "--modes", "lexical", "--no-ablation", "--json")
    assert figures["turns"] == 2
    assert figures["modes"]["lexical"]["recall@5"] == 1.0


@pytest.mark.parametrize("left_out", ["id", "timestamp", "user_id"])
def test_a_memory_without_what_it_needs_is_refused(tmp_path, left_out):
    less = {key: value for key, value in FACTS[0].items() if key != left_out}
    file = written(tmp_path / "facts.jsonl", [less, *FACTS[1:]])
    with pytest.raises(InvalidArgumentError, match="line 1"):
        read_jsonl(file, "app")


def test_the_other_half_of_an_exchange_answers_too():
    def asked(*ids):
        return Question("?", "x", frozenset(ids))

    authors = ["user", "assistant", "user", "user", "assistant", "tool"]
    events = [Event("t", who, i, str(i)) for i, who in enumerate(authors)]
    given = [asked("0"), asked("1", "3"), asked("2"), asked("5"), asked()]
    told = Conversation("u", [Session("app", "u", "s", events)], given)
    widened = accept_both_halves(told).questions
    assert [one.evidence_pieces for one in widened] == [
        ({"0", "1"},),
        ({"0", "1"}, {"3", "4"}),
        ({"2"},),
        ({"5"},),
        (),
    ]
    assert widened[1].evidence == {"0", "1", "3", "4"}
    assert not widened[4].evidence

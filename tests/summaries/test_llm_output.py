"""What a model's answer becomes, however it is wrapped."""

from __future__ import annotations

import json

import pytest
from helpers.summaries import answered, texts
from vecall import SummaryError
from vecall.summaries import DEFAULT_PROMPT

ANSWER = {"summary": "A trip.", "topics": ["travel"], "keyFacts": ["Likes parrots."]}


@pytest.mark.parametrize(
    "wrap",
    [
        "%s",
        "\ufeff \n%s\n",
        "```json\n%s\n```",
        "```\n%s```",
        "Here [1] you {are}: %s That is all [2] {so far}.",
        "```json\n{broken\n```\n```json\n%s\n```",
        "[%s]",
        '{"summaries": [%s]}',
        '{"result": %s, "summary": null}',
        "%s\n%s",
        "[[%s]]",
        '[1, "x", null, {"summary": 3}, %s]',
        "[%s, {",
    ],
)
def test_json_is_found_however_it_is_wrapped(wrap):
    """S4.48."""
    answer = wrap.replace("%s", json.dumps(ANSWER))
    assert [(one.summary, one.topics, one.key_facts) for one in answered(answer)] == [
        ("A trip.", ("travel",), ("Likes parrots.",))
    ]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"keyFacts": ["a", "b"]}, ("a", "b")),
        ({"key_facts": ["a", "b"]}, ("a", "b")),
        ({"keyFacts": " a "}, ("a",)),
        ({"keyFacts": ["a", 1, None, ["b"], {"c": "d"}, " ", "e"]}, ("a", "e")),
        ({"keyFacts": {"a": "b"}}, ()),
        ({"keyFacts": 7}, ()),
        ({"keyFacts": None}, ()),
        ({"keyFacts": ""}, ()),
        ({}, ()),
    ],
)
def test_facts_may_be_a_list_or_a_text_and_wrong_types_are_dropped(facts, expected):
    """S4.48."""
    (found,) = answered(json.dumps({"summary": "s", **facts}))
    assert found.key_facts == expected


def test_topics_are_read_as_facts_are():
    (found,) = answered('{"summary": "s", "topics": "birds"}')
    assert found.topics == ("birds",)
    (found,) = answered('{"summary": "s", "topics": ["birds", 3, ""]}')
    assert found.topics == ("birds",)


def test_several_objects_are_several_summaries_of_the_same_turns():
    """S4.22."""
    both = [{"summary": "One."}, {"summary": "Two.", "topics": ["t"]}]
    expected = ["One.", "Two."]
    assert texts(json.dumps(both)) == expected
    assert texts("\n".join(map(json.dumps, both))) == expected
    assert texts(json.dumps(both)[:-1] + ', {"summ') == expected
    assert texts(json.dumps([*both, *both])) == expected
    assert {one.event_count for one in answered(json.dumps(both))} == {1}


@pytest.mark.parametrize(
    "answer",
    [
        "Alice likes parrots.",
        '{"summary": "cut off in the',
        '{"text": "no summary"}',
        '{"summary": 3}',
        "[]",
        "null",
        "{" * 50_000,
        "[" * 50_000,
        '{"a":' * 50_000,
        '{"a":' * 3_000 + "1" + "}" * 3_000,
        '["' * 50_000,
        '{"summary": ' + "9" * 10_000 + "}",
        "[1], " * 5_000,
    ],
    ids=lambda answer: f"{answer[:10]}-{len(answer)}",
)
def test_where_nothing_parses_the_whole_text_is_the_summary(answer, in_time):
    """S4.48."""
    assert in_time(texts, f" {answer}\n") == [answer.strip()]


def test_what_lies_inside_of_a_summary_is_no_summary_of_its_own():
    """S4.48."""
    inner = {"summary": "Inner."}
    assert texts(json.dumps(ANSWER | {"keyFacts": [inner], "x": inner})) == ["A trip."]


def test_many_brackets_before_the_object_do_not_hide_it():
    """S4.48: a model may think aloud first."""
    thoughts = "First [a], then {b}, see [1]. " * 20
    assert texts(thoughts + json.dumps(ANSWER)) == ["A trip."]


def test_line_breaks_and_lone_surrogates_in_json_do_no_harm():
    (found,) = answered('{"summary": "one\ntwo\\ud800", "topics": ["\\ud83e\\udd9c"]}')
    assert (found.summary, found.topics) == ("one\ntwo\ufffd", ("\U0001f99c",))
    assert texts("plain \ud800") == ["plain \ufffd"]


def test_an_answer_that_repeats_the_prompt_does_not_read_as_json():
    """S4.56: the wanted form is told in words."""
    assert texts(DEFAULT_PROMPT) == [DEFAULT_PROMPT.strip()]


@pytest.mark.parametrize(
    "answer", ["", " \n\t", '{"summary": ""}', '[{"summary":" "}]']
)
def test_a_blank_answer_is_an_error(answer):
    """S4.48."""
    with pytest.raises(SummaryError, match="blank"):
        answered(answer)


@pytest.mark.parametrize("answer", [None, b"text", 3, {"summary": "s"}, ["s"]])
def test_an_answer_that_is_no_text_is_an_error_that_names_its_type(answer):
    with pytest.raises(SummaryError, match=f"not {type(answer).__name__}$"):
        answered(answer)

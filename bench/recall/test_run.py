"""The gate for changes of ranking distinguishes a loss from noise, and from nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench.recall.comparisons import (
    Answered,
    against_rivals,
    compare,
    interval,
    of_users,
)
from bench.recall.run import main, read, save
from bench.recall.sets import all_sets

FACTS = {"facts": "facts"}


def answered(values, *, user="wren"):
    values = list(map(float, values))
    questions = [(user, f"question {at}") for at in range(len(values))]
    return Answered(questions, {"recall@10": values, "mrr": values})


def run(values, name="facts", mode="lexical"):
    return {name: {mode: answered(values)}}


def test_a_loss_on_a_kind_fails_and_noise_and_gains_do_not():
    rng = np.random.default_rng(1)
    before = rng.random(300)
    for change, lost in ((-0.1, 2), (0.1, 0), (0.0, 0)):
        after = before + change + 0.2 * rng.standard_normal(300)
        rows, failures = compare(run(before), run(after), FACTS)
        assert [row[:2] for row in rows] == [["facts", "lexical"]]
        assert len(failures) == lost, change
        assert all("facts, lexical" in line for line in failures)


def test_a_loss_on_a_lenient_set_is_not_hidden_by_a_gain_on_the_strict_one():
    before = np.full(100, 0.5)
    names = {"chats": "assistants", "chats, lenient": "assistants, lenient"}
    rng = np.random.default_rng(2)
    noise = 0.1 * rng.standard_normal(100)
    rows, failures = compare(
        {name: run(before)["facts"] for name in names},
        {
            "chats": run(before + 0.1 + noise)["facts"],
            "chats, lenient": run(before - 0.1 + noise)["facts"],
        },
        names,
    )
    assert len(rows) == 2
    assert len(failures) == 2
    assert all(line.startswith("assistants, lenient, lexical") for line in failures)


def test_what_cannot_be_compared_fails_and_is_named():
    one, two = run([1.0, 0.0]), run([1.0])
    for before, after, reason in (
        (one, two, "facts, lexical: the earlier run asked otherwise"),
        ({}, two, "facts, lexical: the earlier run lacks it"),
        (two, {}, "facts, lexical: only the earlier run has it"),
        (run([1.0], mode="local"), two, "facts, local: only the earlier run has it"),
    ):
        rows, failures = compare(before, after, FACTS)
        assert rows == []
        assert reason in failures
        assert "nothing was compared" in failures
    assert compare({}, {}, {}) == ([], ["nothing was compared"])


def test_other_questions_of_the_same_number_cannot_be_compared():
    before = run([1.0, 1.0])
    after = {"facts": {"lexical": answered([1.0, 1.0], user="otis")}}
    _, failures = compare(before, after, FACTS)
    assert "facts, lexical: the earlier run asked otherwise" in failures


def test_a_set_that_is_lost_fails_beside_one_that_is_compared():
    before = {**run([1.0, 0.5]), **run([1.0], name="code")}
    rows, failures = compare(before, run([1.0, 0.5]), FACTS)
    assert [row[0] for row in rows] == ["facts"]
    assert failures == ["code, lexical: only the earlier run has it"]


def test_each_share_has_its_own_best_rival():
    values = {"recall@10": [1.0, 0.5], "mrr": [0.5, 0.5]}
    found = {
        "local": Answered([("wren", "a"), ("wren", "b")], values),
        "bm25s": answered([0.5, 0.5]),
        "cosine": answered([1.0, 0.2]),
    }
    found["cosine"].shares["mrr"] = [0.1, 0.1]
    ((_, mode, recall, mrr),) = against_rivals(
        "facts", found, {"local": ["bm25s", "cosine"]}
    )
    assert mode == "local"
    assert recall.startswith("+15.0 [")
    assert recall.endswith("cosine 60.0")
    assert mrr == "+0.0 [+0.0, +0.0] bm25s 50.0"


def test_the_parts_of_users_have_their_own_questions_and_shares():
    both = Answered(
        [("wren", "a"), ("otis", "b"), ("wren", "c")], {"mrr": [1.0, 0.5, 0.2]}
    )
    assert of_users(both) == {
        "wren": Answered([("wren", "a"), ("wren", "c")], {"mrr": [1.0, 0.2]}),
        "otis": Answered([("otis", "b")], {"mrr": [0.5]}),
    }


def test_the_interval_holds_the_mean_and_is_as_wide_as_theory_says():
    differences = np.random.default_rng(2).standard_normal(400)
    mean, low, high = interval(differences)
    assert mean == differences.mean()
    width = 2 * 1.96 * differences.std() / np.sqrt(400)
    assert abs((high - low) / width - 1) < 0.1
    assert low < mean < high


def test_the_command_compares_with_what_it_saved(tmp_path, monkeypatch, capsys):
    file = tmp_path / "before.json"
    base = ["run", "--sets", "code", "--modes", "lexical"]
    monkeypatch.setattr("sys.argv", [*base, "--save", str(file), "--by-user"])
    assert main() == 0
    before = read(file)
    assert list(before) == ["code"]
    rows = [line for line in capsys.readouterr().out.splitlines() if "code: " in line]
    assert len(rows) == len(of_users(before["code"]["lexical"])) == 3
    monkeypatch.setattr("sys.argv", [*base, "--against", str(file)])
    assert main() == 0
    part = before["code"]["lexical"]
    part.shares["mrr"] = [share + 0.1 for share in part.shares["mrr"]]
    save(before, file)
    assert main() == 1
    assert "code, lexical, mrr: lost beyond noise" in capsys.readouterr().out
    save({"code": {"local": part}}, file)
    assert main() == 1
    assert "nothing was compared" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--sets", "--modes"])
def test_what_was_not_asked_for_is_not_compared(tmp_path, monkeypatch, option):
    file = tmp_path / "before.json"
    wide = {"--sets": "code,facts", "--modes": "lexical"}
    base = ["run", *(word for pair in wide.items() for word in pair)]
    monkeypatch.setattr("sys.argv", [*base, "--save", str(file)])
    assert main() == 0
    saved = read(file)
    if option == "--modes":
        saved["code"]["another"] = saved["code"]["lexical"]
        saved["facts"]["another"] = saved["facts"]["lexical"]
        save(saved, file)
    else:
        base[base.index("code,facts")] = "code"
    monkeypatch.setattr("sys.argv", [*base, "--against", str(file)])
    assert main() == 0


def test_what_is_told_in_passing_is_asked_for_in_three_ways_beside_one_chat():
    names = ("passing", "needs", "messages")
    found = {one.name: one for one in all_sets() if one.name in names}
    assert list(found) == list(names)
    evidence = set()
    for one in found.values():
        questions = [each for life in one.conversations for each in life.questions]
        assert len({each.text for each in questions}) == 50
        ids = [
            (life.user_id, *q.evidence)
            for life in one.conversations
            for q in life.questions
        ]
        evidence.add(tuple(ids))
        for life in one.conversations:
            said = {str(e.id): e for session in life.sessions for e in session.events}
            assert len(said) > 150  # most of them are of a chat about other things
            assert all(
                said[id_].author == "user" for q in life.questions for id_ in q.evidence
            )
    assert len(evidence) == 1  # each fact is asked for once in each way

"""`vecall eval`: its pictures, its files, and what it refuses."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import pytest
from helpers.embedders import Recorder
from helpers.evaluations import lines, runner, written
from vecall.cli import eval_command as evaluate
from vecall.errors import InvalidArgumentError
from vecall.evaluation import runner as evaluation
from vecall.evaluation.datasets import read_jsonl


@pytest.fixture
def tiny(tmp_path):
    return written(tmp_path / "tiny.jsonl", lines())


@pytest.fixture
def run(capsys):
    return runner(capsys)


@pytest.fixture
def recorder(monkeypatch):
    """The mode "recorder", which has no calibration."""
    real = evaluation.resolve
    monkeypatch.setattr(
        evaluation,
        "resolve",
        lambda name: Recorder() if name == "recorder" else real(name),
    )


# Pictures.


def test_a_picture_is_one(run, tiny, tmp_path):
    pytest.importorskip("matplotlib")
    picture, drawing = tmp_path / "a.png", tmp_path / "b.svg"
    options = ("jsonl", tiny, "--modes", "lexical", "--no-ablation")
    run(*options, "--plot", picture)
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    assert width > 1000 < width / height * 1000
    run(*options, "--plot", drawing)
    letters = drawing.read_text()
    for label in ("recall@k in percent", "36 turns, 36 questions", "as it should be",
                  "lexical: ECE"):  # fmt: skip
        assert label in letters


def test_without_confidences_the_picture_is_recall_alone(run, tiny, tmp_path, recorder):
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "c.svg"
    run("jsonl", tiny, "--modes", "vectors", "--no-ablation",
        "--plot", drawing)  # fmt: skip
    assert "as it should be" not in drawing.read_text()
    assert "recall@k" in drawing.read_text()


def test_without_matplotlib_it_says_what_to_install(run, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "find_spec", lambda name: None)
    message = run("jsonl", tiny, "--plot", tmp_path / "a.png", fails=True)
    assert 'pip install "vecall[plot]"' in message


def test_commands_start_without_what_draws():
    code = "import sys, vecall.cli.main; print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


# What is refused.


def test_bad_options_are_refused_before_anything_is_measured(
    run, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(evaluate, "run_evaluation", None)
    monkeypatch.setattr(evaluate, "find_spec", lambda name: name)
    for wrong, said in (
        (("--plot", tmp_path / "a.gif"), ".png or .svg"),
        (("--plot", tmp_path / "absent" / "a.png"), "--plot"),
        (("--calibrate", tmp_path), "--calibrate"),
        (("--calibration", tmp_path / "absent.json"), "calibration"),
        (("--calibration", tiny), "calibration"),
        (("--modes", "magic"), "--modes"),
        (("--modes", ""), "--modes"),
        (("--modes", "local:model"), "--modes"),
        (("--conversations", "3"), "from 0 to 2"),
        (("--conversations", "0-99999999999"), "from 0 to 2"),
        (("--conversations", "2-1"), "from 0 to 2"),
    ):
        assert said in run("jsonl", tiny, *wrong, fails=True), wrong
    assert "jsonl needs" in run("jsonl", fails=True)
    assert "jsonl needs" in run("jsonl", tmp_path / "absent", fails=True)


def test_too_few_answers_to_fit_are_refused(run, tiny, tmp_path):
    out = tmp_path / "out.json"
    message = run("jsonl", tiny, "--conversations", "0", "--modes", "lexical",
                  "--no-ablation", "--calibrate", out, fails=True)  # fmt: skip
    assert "100 hits" in message
    assert not out.exists()


def test_one_conversation_has_no_strangers(run, tiny):
    result = run(
        "jsonl", tiny, "--conversations", "1,1", "--modes", "lexical", "--json"
    )
    assert (result["conversations"], result["strangers"]) == (1, 0)
    assert all(
        row["strangers"] is None for row in result["modes"]["lexical"]["silence"]
    )
    assert "-" in run("jsonl", tiny, "--conversations", "1", "--modes", "lexical")


def test_questions_that_nothing_answers_have_no_recall(run, tmp_path):
    told = [{**one, "evidence": []} if "question" in one else one for one in lines()]
    file = written(tmp_path / "none.jsonl", told)
    figures = run("jsonl", file, "--modes", "lexical", "--json")["modes"]["lexical"]
    assert (figures["questions"], figures["recall@10"], figures["mrr"]) == (
        0,
        None,
        None,
    )
    assert figures["calibration"]["auroc"] is None
    assert "Recall" in run("jsonl", file, "--modes", "lexical")


TURN = {"user_id": "u", "session_id": "s", "id": "1", "author": "a",
        "timestamp": 0, "text": "Keeps zebras."}  # fmt: skip
ASKED = {"user_id": "u", "question": "Zebras?", "category": "c", "evidence": ["1"]}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([TURN, "not json"], "line 2"),
        ([TURN, [1]], "line 2"),
        ([{}], "line 1"),
        ([TURN, TURN, ASKED], "line 2"),  # an id that is there already
        ([TURN, {**ASKED, "evidence": "1"}], "line 2"),
        ([TURN, {**ASKED, "evidence": None}], "line 2"),
        ([TURN, {**ASKED, "evidence": ["9"]}], "names a user or a turn"),
        ([TURN, {**ASKED, "user_id": "v"}], "names a user or a turn"),
        ([TURN], "turns and of questions"),
        ([], "turns and of questions"),
        *(
            ([{key: TURN[key] for key in TURN if key != missing}, ASKED], "line 1")
            for missing in TURN
        ),
        *(
            ([TURN, {key: ASKED[key] for key in ASKED if key != missing}], "line 2")
            for missing in ASKED
        ),
    ],
)
def test_a_line_of_another_shape_is_named(tmp_path, told, said):
    file = tmp_path / "bad.jsonl"
    told = [one if isinstance(one, str) else json.dumps(one) for one in told]
    file.write_text("\n".join(told))
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        read_jsonl(file, "app")
    assert "zebra" not in str(caught.value).lower()


def test_a_file_is_read_whatever_its_strings_hold(tmp_path):
    odd = {**TURN, "text": "one\u2028two\x85three\x0cfour"}
    file = tmp_path / "odd.jsonl"
    lines = [json.dumps(one, ensure_ascii=False) for one in (odd, ASKED)]
    file.write_text("\r\n\r\n".join(lines), encoding="utf-8", newline="")
    (conversation,) = read_jsonl(file, "app")
    assert conversation.sessions[0].events[0].content == odd["text"]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match="line 1"):
        read_jsonl(file, "app")


def test_a_time_that_is_none_is_refused_without_a_traceback(run, tmp_path):
    told = [{**TURN, "timestamp": "yesterday"}, ASKED]
    message = run("jsonl", written(tmp_path / "t.jsonl", told), fails=True)
    assert "time" in message

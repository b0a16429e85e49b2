"""The commands, run as their users run them."""

from __future__ import annotations

import json

import pytest
from vecall import MemoryService
from vecall.cli.main import main
from vecall.embedders import has_local

ALICE = {"app_name": "hotel", "user_id": "alice"}
TURNS = [
    {**ALICE, "session_id": "trip", "event_id": "1", "author": "user",
     "timestamp": 1741770000, "text": "A quiet room on a high floor, please."},
    {**ALICE, "session_id": "trip", "event_id": "2", "author": "concierge",
     "timestamp": 1741770030, "text": "Noted."},
    {**ALICE, "text": "Prefers metric units.", "kind": "preference"},
    {"appName": "hotel", "userId": "bob", "text": "Keeps zebras."},
    {**ALICE, "id": "trip-2",
     "events": [{"id": "9", "author": "user", "text": "Back again, same room?"}]},
]  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memories.jsonl"
    path.write_text("\n\n".join(map(json.dumps, TURNS)) + "\n")
    return path


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run one command on one file; return its JSON, or what it said on failure."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")

    def run_command(*arguments, fails=False):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code == (1 if fails else 0), printed.err
        if fails:
            return printed.err
        return json.loads(printed.out) if "--json" in arguments else printed.out

    return run_command


def test_what_was_imported_is_found_with_who_said_it_and_when(run, file):
    assert run("import", file, "--json")["memories"] == len(TURNS)
    found = run("search", "quiet room", "--app", "hotel", "--user", "alice", "--json")
    first = found["memories"][0]
    assert first["content"] == "A quiet room on a high floor, please."
    assert (first["author"], first["timestamp"]) == ("user", 1741770000.0)
    assert first["score"] > 0
    assert found["ms"] > 0
    shown = run("search", "quiet room", "--app", "hotel", "--user", "alice")
    assert "12 Mar 2025 09:00" in shown
    assert "quiet room on a high floor" in shown
    assert " ms" in shown


def test_turns_of_one_session_are_neighbours_after_an_import(run, file):
    run("import", file, "--embedder", "none")
    found = run(
        "search", "quiet", "--app", "hotel", "--user", "alice", "--embedder", "none",
        "--json",
    )  # fmt: skip
    assert [entry["event_id"] for entry in found["memories"]] == ["1", "2"]


def test_importing_twice_adds_nothing(run, file):
    run("import", file)
    before = run("stats", "--json")
    run("import", file)
    after = run("stats", "--json")
    assert before["memories"] == after["memories"] == len(TURNS)
    assert before["users"] == after["users"] == 2


def test_a_bad_line_is_named_and_the_good_ones_before_it_are_kept(run, file):
    file.write_text(json.dumps(TURNS[0]) + "\n{not json\n")
    message = run("import", file, fails=True)
    assert "line 2" in message
    assert "not json" not in message
    file.write_text(json.dumps(TURNS[0]) + "\n" + json.dumps({"text": "whose?"}) + "\n")
    message = run("import", file, fails=True)
    assert "app_name" in message
    assert run("stats", "--json")["memories"] == 1


def test_names_can_come_from_the_command_line(run, tmp_path):
    file = tmp_path / "plain.jsonl"
    file.write_text('{"text": "Keeps zebras."}\n')
    run("import", file, "--app", "a", "--user", "u")
    found = run("search", "zebras", "--app", "a", "--user", "u", "--json")
    assert len(found["memories"]) == 1


def test_a_search_sees_one_user_only(run, file):
    """S0.11."""
    run("import", file, "--embedder", "none")
    found = run(
        "search", "zebras", "--app", "hotel", "--user", "alice", "--embedder", "none",
        "--json",
    )  # fmt: skip
    assert found["memories"] == []


def test_a_search_can_be_narrowed(run, file):
    run("import", file)
    args = ("search", "room", "--app", "hotel", "--user", "alice", "--json")
    assert len(run(*args)["memories"]) > 1
    only = run(*args, "--session", "trip-2")["memories"]
    assert [entry["session_id"] for entry in only] == ["trip-2"]
    early = run(*args, "--before", "2025-03-13T00:00:00Z")["memories"]
    assert {entry["session_id"] for entry in early} == {"trip"}


def test_a_question_to_a_file_that_is_not_there_makes_none(run, tmp_path):
    for command in (
        ("stats",),
        ("search", "x", "--app", "a", "--user", "u"),
    ):
        assert "no such file" in run(*command, "--path", "absent.db", fails=True)
    assert not (tmp_path / "absent.db").exists()
    assert "absent.jsonl" in run("import", tmp_path / "absent.jsonl", fails=True)


def test_stats_count_what_is_there(run, tmp_path):
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["one", "two"])
    facts = run("stats", "--json")
    assert (facts["users"], facts["memories"], facts["embedded"]) == (1, 2, 0)
    assert facts["file_bytes"] > 0
    assert "memories" in run("stats")


def test_the_demo_survives_its_kill_and_keeps_its_wall(run, tmp_path):
    """S2.1, S4.63: all that was acknowledged is there after the process was killed."""
    report = run("demo", "--embedder", "none", "--path", tmp_path / "d.db", "--json")
    assert report["stored"] == report["written"]["turns"] >= 150
    assert report["written"]["sessions"] >= 12
    assert report["isolation"]["leaked"] == 0
    assert len({answer["user"] for answer in report["answers"]}) >= 3
    shown = run("demo", "--embedder", "none")
    assert "kill -9" in shown
    assert "Users are isolated" in shown


def test_eval_reports_shares_for_each_mode(run, tmp_path):
    turns = [
        {"speaker": "Ann", "dia_id": f"D1:{i}", "text": text}
        for i, text in enumerate(["I bought a zebra.", "Why?", "For the garden."], 1)
    ]
    sample = {
        "sample_id": "c1",
        "conversation": {
            "session_1": turns,
            "session_1_date_time": "1:56 pm on 8 May, 2023",
        },
        "qa": [
            {"question": "Who has a zebra?", "evidence": ["D1:1"], "category": 4},
            {"question": "What else?", "evidence": ["D1:3; D1:2"], "category": 1},
            {"question": "No evidence", "evidence": ["D9:9"], "category": 2},
        ],
    }
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([sample]))
    result = run("eval", "locomo", file, "--modes", "lexical", "--json")["modes"]
    assert set(result) == {"lexical"}
    figures = result["lexical"]
    assert {"recall@5", "recall@10", "recall@20", "mrr", "p50_ms", "p99_ms"} <= set(
        figures
    )
    assert figures["questions"] == 2
    assert figures["categories"]["4"]["recall@5"] == 1.0
    assert figures["categories"]["4"]["mrr"] == 1.0
    assert 0 <= figures["recall@10"] <= 1
    assert figures["categories"]["4-5"]["questions"] == 1
    assert "recall@10" in run("eval", "locomo", file, "--modes", "lexical")


def test_eval_refuses_what_it_cannot_read(run, tmp_path):
    file = tmp_path / "other.json"
    file.write_text('{"not": "locomo"}')
    assert "LoCoMo" in run("eval", "locomo", file, fails=True)
    assert "path" in run("eval", "locomo", fails=True)
    assert "--modes" in run("eval", "demo", "--modes", "magic", fails=True)
    assert "--conversations" in run("eval", "demo", "--conversations", "9", fails=True)


def test_the_demo_makes_a_file_of_its_own(run, tmp_path):
    with MemoryService(tmp_path / "mine.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["one"])
    message = run("demo", "--path", "mine.db", "--embedder", "none", fails=True)
    assert "mine.db" in message
    assert run("stats", "--path", "mine.db", "--json")["memories"] == 1
    assert "top_k" in run("demo", "--top-k", "0", fails=True)


def test_a_search_says_how_sure_it_is_and_why(run, tmp_path):
    file = tmp_path / "turn.jsonl"
    file.write_text(json.dumps(TURNS[0]) + "\n")
    run("import", file)
    asked = ("search", "quiet", "--app", "hotel", "--user", "alice")
    (memory,) = run(*asked, "--json", "--explain")["memories"]
    told = memory["explanation"]
    parts = sum(told[name] for name in ("words", "vectors", "neighbours", "session"))
    assert memory["score"] == pytest.approx(parts * told["factor"])
    assert run(*asked, "--json", "--min-confidence", "0.01")["memories"]
    assert not run(*asked, "--json", "--min-confidence", "1")["memories"]
    assert "% sure" in run(*asked)
    assert "neighbours" in run(*asked, "--explain")


def test_an_import_keeps_every_documented_field_of_a_turn(run, tmp_path):
    file = tmp_path / "turn.jsonl"
    turn = {**TURNS[0], "kind": "fact", "importance": 0.9, "source": "s", "trust": "t"}
    file.write_text(json.dumps(turn) + "\n")
    run("import", file)
    found = run("search", "quiet", "--app", "hotel", "--user", "alice", "--json")
    (memory,) = found["memories"]
    kept = [memory[name] for name in ("kind", "source", "trust")]
    assert kept == ["fact", "s", "t"]
    assert 0.8 < memory["importance"] < 0.9  # it was said long ago


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "{}", "[{}]", "[1]", ""])
def test_a_file_that_holds_no_conversation_is_refused(run, tmp_path, text):
    file = tmp_path / "odd.json"
    file.write_text(text)
    assert "LoCoMo" in run("eval", "locomo", file, fails=True)
    if text:
        place = "record 1" if "[" in text and text[1:2] in "{1" else "line 1"
        assert place in run("import", file, "--app", "a", "--user", "u", fails=True)


def test_a_folder_without_files_is_refused(run, tmp_path):
    assert "no file of a known kind" in run("import", tmp_path, fails=True)


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for command in ("demo", "import", "search", "stats", "eval"):
        assert command in shown


def test_the_statistics_say_why_a_file_is_searched_by_words(run, file):
    run("import", file, "--embedder", "none")
    assert run("stats", "--json")["words_only"] is not None
    assert "words only" in run("stats")
    if has_local():
        run("import", file)
        assert run("stats", "--json")["words_only"] is None


@pytest.mark.parametrize(
    "command", [("search", "room"), ("consolidate",), ("consolidate", "--json")]
)
@pytest.mark.parametrize("embedder", ["auto", f"{__name__}:flat"])
def test_a_command_that_only_shows_gives_a_file_no_model(
    run, file, tmp_path, capsys, command, embedder
):
    """The owner's next program may bring its own embedder."""
    run("import", file, "--embedder", "none")
    who = ("--app", "hotel", "--user", "alice")
    assert main([*command, *who, "--embedder", embedder]) == 0
    said = capsys.readouterr()
    assert said.out
    assert said.err.count("\n") <= 1, "at most one note"
    with MemoryService(tmp_path / "memory.db", embedder=flat) as memory:
        assert len(memory.sync.search_memory(**ALICE, query="room").memories) > 1


def test_the_statistics_of_a_file_with_vectors_of_another_model_say_no_words_only(
    run, file
):
    run("import", file, "--embedder", f"{__name__}:flat")
    told = run("stats", "--json")
    assert told["embedded"] == told["memories"] > 0
    assert told["words_only"] is None


def flat(texts):
    return [[1.0, 2.0, 3.0] for _ in texts]

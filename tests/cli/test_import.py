"""`vecall import` and `vecall export` as people use them: pipes, errors, counts."""

from __future__ import annotations

import io
import itertools
import json
import random
import subprocess
import sys

import pytest
from vecall import MemoryService
from vecall.cli.main import main
from vecall.importing.import_job import OwnerBatches
from vecall.importing.sources import Record

APP = {"app_name": "hotel"}
ALICE = {**APP, "user_id": "alice"}


_stream = io.BytesIO


class _Input:
    def __init__(self, data):
        self.buffer = _stream(data)


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run one command in its own folder; return its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")

    def run_command(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", _Input(stdin))
        given = [str(argument) for argument in arguments]
        if given[0] == "import" and "--embedder" not in given:
            given += ["--embedder", "none"]
        code = main(given)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_command


def _lines(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def _there(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_pipe_carries_an_export_into_another_file(run, tmp_path):
    memories = ["Keeps zebras.", {"content": "Tab\tand \x7f and \u202e", "id": "odd"}]
    with MemoryService(tmp_path / "a.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=memories)
        memory.sync.admin.export_jsonl(tmp_path / "a.jsonl")
    code, out, err = run("export", "-", "--path", "a.db")
    assert (code, err) == (0, "2 memories exported\n")
    assert out.isascii()
    assert not any(char < " " or char == "\x7f" for char in out.replace("\n", ""))
    plain = (tmp_path / "a.jsonl").read_text().splitlines()
    assert list(map(json.loads, out.splitlines())) == list(map(json.loads, plain))
    assert "-" not in _there(tmp_path)
    code, shown, err = run("import", "-", "--path", "b.db", stdin=out.encode())
    assert (code, err) == (0, "")
    assert shown.startswith("2 memories in ")
    with MemoryService(tmp_path / "b.db", embedder=None) as memory:
        assert memory.sync.admin.stats()["memories"] == 2


def test_lines_come_from_standard_input_too(run):
    data = _lines({**ALICE, "text": "one"}, {**ALICE, "text": "two"}).encode()
    code, shown, _ = run("import", "-", stdin=data)
    assert code == 0
    assert shown.startswith("2 new memories, 0 known, from 2 records in ")
    code, shown, _ = run("import", "-", "--json", stdin=data)
    facts = json.loads(shown)
    assert (facts["new"], facts["known"], facts["records"]) == (0, 2, 2)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([ALICE | {"text": "a"}, None], "line 2: expected a JSON object"),
        ([{"user_id": "u", "text": "a"}], "line 1 has no app_name; give --app"),
        ([ALICE | {"text": "a"}, {**APP, "text": "a"}], "line 2 has no user_id; give"),
        (
            [ALICE | {"text": str(n)} for n in range(5)]
            + [ALICE | {"text": "x", "importance": 7}]
            + [ALICE | {"text": "later"}],
            "line 6: importance: must be within",
        ),
    ],
)
def test_the_line_that_is_wrong_is_named_with_the_remedy(run, tmp_path, lines, message):
    (tmp_path / "in.jsonl").write_text(_lines(*lines).replace("null", "{broken"))
    code, _, err = run("import", "in.jsonl")
    assert code == 1
    assert f"in.jsonl, {message}" in err or message in err
    if "line 6" in message:
        assert "5 memories imported" in err


def test_a_file_whose_first_line_is_refused_makes_no_database(run, tmp_path):
    (tmp_path / "some.sqlite").write_bytes(b"SQLite format 3\0" + bytes(100))
    code, _, err = run("import", "some.sqlite", "--path", "new.db")
    assert code == 1
    assert "the SQLite file is damaged, or is none" in err
    (tmp_path / "good.jsonl").write_text(_lines({**ALICE, "text": "a"}))
    (tmp_path / "broken.py").write_text("def embed(texts):\n    raise OSError('key')\n")
    code, _, err = run(
        "import", "good.jsonl", "--path", "new.db", "--embedder", "broken:embed"
    )
    assert code == 1
    assert "embedder" in err
    assert not any(name.startswith("new.db") for name in _there(tmp_path))


def test_a_line_that_no_memory_can_fill_is_not_read_into_memory(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr("vecall.importing.sources.MOST_CHARACTERS", 4_194_304)
    text = "x" * (16 * 262_144)
    (tmp_path / "in.jsonl").write_text(_lines({**ALICE, "text": text}))
    code, _, err = run("import", "in.jsonl")
    assert code == 1
    assert "line 1: at most 4,194,304 characters" in err
    assert _there(tmp_path) == ["in.jsonl"]


def test_users_in_turn_cost_as_few_writes_as_users_in_order():
    """Each batch is one synced write; the order within an owner stays."""
    lines = [
        Record(f"line {n + 1}", {**APP, "user_id": f"u{n % 20}", "text": str(n)}, 80)
        for n in range(6_000)
    ]
    shuffled = random.Random(7).sample(lines, len(lines))
    by_user = sorted(lines, key=lambda line: line.item["user_id"])
    counts = []
    for given in (lines, shuffled, by_user):
        batches = OwnerBatches()
        made = [batch for line in given for batch in batches.add_record(line)]
        made += batches.rest_of_groups()
        counts.append(len(made))
        assert sorted(map(str, itertools.chain(*made))) == sorted(map(str, lines))
        for user in ("u0", "u19"):
            written = [x for b in made for x in b if x.item["user_id"] == user]
            assert written == [x for x in given if x.item["user_id"] == user]
        for batch in made:
            assert len({line.item["user_id"] for line in batch}) == 1
    assert counts[0] == counts[1] == counts[2] == 20


def test_sessions_of_users_who_take_turns_keep_their_order(run, tmp_path):
    turns = [
        {**APP, "user_id": f"u{n % 3}", "session_id": f"s{n % 2}", "event_id": str(n),
         "timestamp": 1_700_000_000 + n, "text": f"said {n}"}
        for n in range(60)
    ]  # fmt: skip
    (tmp_path / "in.jsonl").write_text(_lines(*turns))
    code, shown, _ = run("import", "in.jsonl")
    assert code == 0
    assert "60 new memories" in shown
    with MemoryService("memory.db", embedder=None) as memory:
        own = [turn for turn in turns if turn["user_id"] == "u1"]
        some = [turn for turn in own if turn["session_id"] == "s1"]
        found = memory.sync.list_memories(**APP, user_id="u1")
        middle = next(each for each in found if each.event_id == some[3]["event_id"])
        near = memory.sync.expand_session(
            **APP, user_id="u1", memory_id=middle.id, turns_before=2, turns_after=2
        )
    assert [each.event_id for each in near] == [t["event_id"] for t in some[1:6]]


def test_what_replaces_another_memory_comes_after_it(run, tmp_path):
    lines = [
        {**ALICE, "id": "old", "text": "Lives in Rome."},
        {**ALICE, "session_id": "s", "text": "A turn."},
        {**ALICE, "id": "new", "text": "Lives in Oslo.", "supersedes": "old"},
    ]
    (tmp_path / "in.jsonl").write_text(_lines(*lines))
    assert run("import", "in.jsonl")[0] == 0
    with MemoryService("memory.db", embedder=None) as memory:
        kept = memory.sync.list_memories(**ALICE, state="archived")
    assert [each.id for each in kept] == ["old"]


def test_an_export_goes_to_its_own_user_alone(run, tmp_path):
    with MemoryService("bob.db", embedder=None) as memory:
        memory.sync.add_memory(**APP, user_id="bob", memories=["Bob's zebra."])
        memory.sync.admin.export_jsonl("bob.jsonl")
    code, _, err = run("import", "bob.jsonl", "--app", "hotel", "--user", "alice")
    assert code == 1
    assert "bob.jsonl" in err
    assert "line 2: part.user: is another one than this import is confined to" in err
    assert run("import", "bob.jsonl", "--app", "hotel", "--user", "bob")[0] == 0
    code, shown, _ = run("import", "bob.jsonl")
    assert code == 0
    assert shown.startswith("0 memories in ")
    assert "1 known already" in shown


def test_the_command_itself_takes_a_pipe(tmp_path):
    data = _lines({**ALICE, "text": "Keeps zebras."})
    command = [sys.executable, "-m", "vecall.cli.main"]
    done = subprocess.run(
        [*command, "import", "-", "--path", tmp_path / "a.db", "--embedder", "none"],
        input=data, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 new memory, 0 known, from 1 record in ")


def _chat(path, count):
    with path.open("w") as out:
        for n in range(count):
            out.write(json.dumps({"role": "user", "content": f"said {n}"}) + "\n")


def test_a_dry_run_shows_what_would_come_and_no_text(run, tmp_path):
    _chat(tmp_path / "chat.jsonl", 3)
    given = ("import", "chat.jsonl", "--app", "a", "--user", "u", "--dry-run")
    code, shown, _ = run(*given)
    assert code == 0
    assert "openai: nothing is written" in shown
    assert ["turn", "3"] in [line.split() for line in shown.splitlines()]
    assert "said" not in shown
    facts = json.loads(run(*given, "--json")[1])
    assert facts["turn"]["count"] == 3
    assert _there(tmp_path) == ["chat.jsonl"]


def test_columns_and_formats_are_named_on_the_command_line(run, tmp_path):
    (tmp_path / "a.txt").write_text("who,note\nann,Keeps zebras.\n")
    named = ("--from", "csv", "--map", "text=note,author=who")
    code, shown, _ = run("import", "a.txt", *named, "--app", "a", "--user", "u")
    assert (code, shown[:12]) == (0, "1 new memory")
    code, _, err = run("import", "a.txt", "--map", "text", "--app", "a", "--user", "u")
    assert code == 1
    assert "map: expected FIELD=COLUMN" in err


def test_a_row_without_a_text_is_counted_and_the_next_one_comes_in(run, tmp_path):
    rows = 'id,text,who\n1,,ann\n2,"  ",bob\n3,Keeps zebras.,cy\n'
    (tmp_path / "a.csv").write_text(rows)
    dump = [{"id": "4", "memory": None}, {"id": "5", "memory": "Keeps emus."}]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": dump}))
    for name, left_out in (("a.csv", 2), ("mem0.json", 1)):
        code, shown, _ = run("import", name, "--app", "a", "--user", "u")
        assert code == 0
        assert f"1 new memory, 0 known, left out: {left_out} no text" in shown


class _Interrupted(io.BytesIO):
    """Input that is interrupted while more of it is awaited."""

    def read(self, size=-1):
        data = super().read(size)
        if not data:
            raise KeyboardInterrupt
        return data


def test_an_import_that_is_interrupted_says_what_was_stored(run, monkeypatch):
    line = json.dumps({"role": "user", "content": "x" * 300}).encode() + b"\n"
    monkeypatch.setattr(sys.modules[__name__], "_stream", _Interrupted)
    given = ("import", "-", "--app", "a", "--user", "u")
    code, shown, err = run(*given, stdin=line * 12_000)
    assert code == 130
    stored = int(shown.partition(" new memories")[0].replace(",", ""))
    assert 8_000 <= stored < 12_000
    assert "interrupted; import again to go on" in err
    with MemoryService("memory.db", embedder=None) as memory:
        assert memory.sync.admin.stats()["memories"] == stored


@pytest.mark.parametrize("form", ["md", "csv", "okf"])
def test_an_export_for_people_says_what_it_cannot_hold(run, tmp_path, form):
    with MemoryService("memory.db", embedder=None) as memory:
        memory.sync.add_memory(**ALICE, memories=["Keeps zebras."])
    target = f"out.{form}" if form != "okf" else "out"
    code, shown, _ = run("export", target, "--format", form)
    assert code == 0
    assert shown.startswith(f"1 memory in {target}, without vectors, TTLs, former")
    code, shown, _ = run("import", target, "--path", "new.db")
    assert (code, shown[:12]) == (0, "1 new memory")
    assert run("export", "-", "--format", form)[0] == 1

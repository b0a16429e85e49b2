"""The shell: list, show, correct, remove and explain memories by commands."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import pty
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import processes
from vecall import MemoryEntry, MemoryService, WritePolicy
from vecall.cli.console import text_width
from vecall.cli.main import EXAMPLES, command_parser, main
from vecall.hooks import ALLOW, QUARANTINE

WIDTHS = [40, 80, 160]
TEXTS = [
    "四階の静かな部屋がいい。羽毛の枕は苦手です。" * 3,
    "👩‍🚀👍🏽🇩🇪 café naïve zażółć नमस्ते " * 4,
    "A quiet room on a high floor, please; no feathers, no carpet, a late breakfast.",
    "x" * 300,
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Run one command; return what it printed, or what it said on failure."""

    def run_command(*arguments, fails=False):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert code == int(fails), (arguments, printed.err)
        if fails:
            return printed.err
        return json.loads(printed.out) if "--json" in arguments else printed.out

    return run_command


@pytest.fixture
def hotel(folder):
    """A file of one app with two users; alice has two sessions and two facts."""
    policy = WritePolicy(
        on_write=lambda write: QUARANTINE if "held" in write.memory.text else ALLOW
    )
    with MemoryService("memory.db", embedder=None, writes=policy) as service:
        alice = service.sync.user("hotel", "alice")
        turns = [
            {"id": f"t{n}", "author": "user", "content": text, "timestamp": 1e9 + n}
            for n, text in enumerate(TEXTS)
        ]
        alice.add_events(turns[:2], session_id="trip")
        alice.add_events(turns[2:], session_id="旅")
        alice.add([MemoryEntry("Prefers tea.", id="tea", kind="fact")])
        alice.add([MemoryEntry("An old fact", id="old")])
        alice.archive("old")
        alice.add([MemoryEntry("a held zebra", id="held")])
        service.sync.user("hotel", "bob").add([MemoryEntry("bobs secret", id="bob")])
    return folder


# First look.


def _shell(*arguments):
    script = "import sys; from vecall.cli.main import main; sys.exit(main())"
    return processes.run(script, *arguments, imports="vecall.cli.main").stdout


def test_a_person_sees_alices_memories_in_one_command_and_corrects_one_in_two(folder):
    assert _shell("demo", "--path", "F", "--embedder", "none")
    seen = _shell("ls", "alice", "--memories", "--path", "F")
    assert "connecting" in seen
    found = _shell("search", "connecting door", "--user", "alice", "--path", "F")
    id_ = re.search(r"id (\S+)", found)[1]
    assert id_ in seen
    _shell("edit", id_, "One room, no door.", "--user", "alice", "--path", "F")
    past = _shell("history", id_, "--user", "alice", "--path", "F")
    assert "connecting door" in past
    assert "One room, no door." in past
    shown = _shell("show", id_, "--user", "alice", "--path", "F")
    assert "One room, no door." in shown
    assert "connecting" not in shown


def test_vecall_alone_says_how_to_begin_and_then_what_there_is(run):
    told = run()
    assert "no memories yet" in told
    assert "vecall add" in told
    assert not Path("memory.db").exists()
    run("add", "I prefer a quiet room", "--embedder", "none")
    told = run()
    assert "1 memory of 1 user" in told
    assert "vecall ls" in told
    assert "quiet room" in run("search", "quiet", "--embedder", "none")


# Lists.


def test_lists_go_from_the_apps_down_to_the_turns(run, hotel):
    assert [each["app_name"] for each in run("ls", "--json")["apps"]] == ["hotel"]
    users = run("ls", "hotel", "--json")["users"]
    assert [each["user_id"] for each in users] == ["alice", "bob"]
    listed = run("ls", "hotel", "alice", "--json")
    assert [(s["session_id"], s["memories"]) for s in listed["sessions"]] == [
        ("trip", 2),
        ("旅", 2),
    ]
    assert [memory["id"] for memory in listed["memories"]] == ["tea"]
    turns = run("ls", "hotel", "alice", "旅", "--json")["memories"]
    assert [turn["text"] for turn in turns] == TEXTS[2:]
    assert "Prefers tea." in run("ls", "hotel", "alice")
    memories = run("ls", "hotel", "alice", "--memories", "--json")["memories"]
    assert len(memories) == 5
    (archived,) = run("ls", "alice", "--archived", "--json")["memories"]
    assert archived["id"] == "old"


def test_the_only_app_and_the_only_user_need_no_name(run, hotel):
    assert run("ls", "alice") == run("ls", "hotel", "alice")
    assert run("ls", "alice", "trip") == run("ls", "hotel", "alice", "trip")
    told = run("search", "tea", fails=True)
    assert "alice, bob" in told
    run("erase", "--user", "bob", "--yes")
    assert run("ls", "trip") == run("ls", "hotel", "alice", "trip")
    assert "Prefers tea." in run("search", "tea", "--embedder", "none")
    assert "Prefers tea." in run("show", "tea")
    assert run("export", "out.jsonl", "--user", "alice")


def test_an_unknown_name_is_named_with_the_nearest(run, hotel):
    assert "user: alcie is unknown; the nearest names: alice" in run(
        "ls", "hotel", "alcie", fails=True
    )
    for command in (
        ("search", "tea"),
        ("show", "tea"),
        ("rm", "tea"),
        ("forget", "tea"),
        ("consolidate",),
        ("export", "out.jsonl"),
    ):
        told = run(*command, "--user", "alicia", fails=True)
        assert "alicia is unknown; the nearest names: alice" in told
        told = run(*command, "--app", "hotle", "--user", "alice", fails=True)
        assert "hotle is unknown; the nearest names: hotel" in told
    assert "tripp is unknown" in run("ls", "hotel", "alice", "tripp", fails=True)
    assert "no such memory" in run("show", "teapot", "--user", "alice", fails=True)
    assert not Path("out.jsonl").exists()


def test_pages_follow_each_other_without_a_gap(run, hotel):
    def walk(*command, name, key):
        seen, after = [], []
        while True:
            page = run("ls", *command, "--limit", "2", "--json", *after)
            seen += [each[key] for each in page[name]]
            if page["next"] is None:
                return seen
            after = ["--after", page["next"]]

    ids = [m["id"] for m in run("ls", "alice", "--memories", "--json")["memories"]]
    assert walk("alice", "--memories", name="memories", key="id") == ids
    assert walk("hotel", name="users", key="user_id") == ["alice", "bob"]
    assert "more: --after trip" in run("ls", "alice", "--limit", "1")
    assert "bob" not in run("ls", "hotel", "--prefix", "al")


def test_csv_and_json_of_a_list_have_the_same_values(run, hotel):
    for command, name in (
        (("ls",), "apps"),
        (("ls", "hotel"), "users"),
        (("ls", "alice"), "sessions"),
        (("ls", "alice", "--memories"), "memories"),
        (("history", "tea", "--user", "alice"), "revisions"),
    ):
        rows = list(csv.DictReader(io.StringIO(run(*command, "--csv"))))
        expected = run(*command, "--json")[name]
        assert len(rows) == len(expected) > 0
        for row, one in zip(rows, expected, strict=True):
            assert row.keys() == one.keys()
            for key, value in one.items():
                is_json = isinstance(value, dict | list)
                shown = json.dumps(value) if is_json else value
                assert row[key] == ("" if value is None else str(shown))
    found = run("search", "tea", "--user", "alice", "--csv", "--embedder", "none")
    assert [row["id"] for row in csv.DictReader(io.StringIO(found))][:1] == ["tea"]


# Changes.


def test_what_is_archived_comes_back_and_what_is_deleted_does_not(run, hotel):
    alice = ("--user", "alice")
    told = run("rm", "tea", *alice)
    assert "vecall restore tea" in told
    assert run("search", "tea", *alice, "--json")["memories"] == []
    run("restore", "tea", *alice)
    assert run("show", "tea", *alice, "--json")["memory"]["state"] == "live"
    assert "--yes" in run("rm", "tea", *alice, "--forever", fails=True)
    assert "no such memory" in run("rm", "tea", "absent", *alice, fails=True)
    assert run("show", "tea", *alice, "--json")["memory"]["state"] == "live"
    assert run("rm", "tea", "old", *alice, "--forever", "--yes", "--json") == {
        "deleted": 2
    }
    for command in ("show", "restore", "history", "rm"):
        assert "this user has no" in run(command, "tea", *alice, fails=True)


def test_a_memory_is_added_with_its_fields(run, folder):
    made = run(
        "add", "Prefers tea.", "--app", "hotel", "--user", "zoë", "--kind", "fact",
        "--author", "user", "--source", "chat", "--session", "s", "--importance",
        "0.9", "--metadata", '{"floor": 4}', "--ttl", "30d", "--embedder", "none",
        "--json",
    )  # fmt: skip
    memory = run("show", made["id"], "--json")["memory"]
    assert (memory["kind"], memory["author"], memory["source"]) == (
        "fact", "user", "chat",
    )  # fmt: skip
    assert memory["custom_metadata"] == {"floor": 4}
    assert (memory["importance"], memory["session_id"]) == (0.9, "s")
    run("edit", made["id"], "--kind", "preference", "--embedder", "none")
    memory = run("show", made["id"], "--json")["memory"]
    assert (memory["kind"], memory["text"]) == ("preference", "Prefers tea.")
    assert "expected a JSON object" in run("add", "x", "--metadata", "[1]", fails=True)


def test_a_memory_is_edited_in_an_editor(run, hotel, monkeypatch):
    editor = hotel / "my editor"
    editor.write_text('#!/bin/sh\nsed -i s/tea/coffee/ "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", shlex.quote(str(editor)))
    edit = ("edit", "tea", "--user", "alice", "--embedder", "none")
    run(*edit)
    assert run("show", "tea", "--user", "alice", "--json")["memory"]["text"] == (
        "Prefers coffee."
    )
    assert "nothing changed" in run(*edit)
    monkeypatch.setenv("EDITOR", "false")
    assert "nothing was changed" in run(*edit, fails=True)
    monkeypatch.delenv("EDITOR")
    assert "set EDITOR" in run(*edit, fails=True)
    history = run("history", "tea", "--user", "alice", "--json")["revisions"]
    assert [each["memory"]["content"] for each in history] == [
        "Prefers tea.",
        "Prefers coffee.",
    ]


def test_what_is_to_be_forgotten_is_shown_before_it_is_deleted(run, hotel):
    forget = ("forget", "tea", "--user", "alice", "--embedder", "none")
    proposed = run(*forget, "--json")
    assert [memory["id"] for memory in proposed["proposed"]] == ["tea"]
    assert proposed["deleted"] == 0
    assert "--yes" in run(*forget, fails=True)
    assert "1 memory deleted" in run(*forget, "--yes")
    assert "no memory matches" in run(*forget, "--yes")


def test_a_text_may_come_from_standard_input(run, hotel, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Prefers oolong."))
    run("add", "-", "--user", "alice", "--embedder", "none")
    monkeypatch.setattr(sys, "stdin", io.StringIO("oolong"))
    forgotten = ("forget", "-", "--user", "alice", "--embedder", "none", "--yes")
    assert "1 memory deleted" in run(*forgotten)


def test_why_names_the_step_and_the_margin(run, hotel):
    why = ("why", "tea", "--user", "alice", "--embedder", "none")
    assert run(*why, "tea").startswith("found\nrank 1 of")
    told = run(*why, "tea", "--min-confidence", "0.99")
    assert told.startswith("not found: below --min-confidence\n")
    assert "margin -0." in told
    told = run(*why, "tea", "--kind", "preference", "--session", "s")
    assert told.startswith(
        "not found: excluded by the conditions on session_id, kind\n"
    )
    assert "it is archived" in run(*why, "old")
    assert run(*why, "old", "--json")["outcome"] == "archived"
    assert "no such memory" in run(*why, "bob", fails=True)


def test_queries_are_asked_line_by_line(run, hotel, monkeypatch):
    lines = iter(["tea", "nothing of this", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    told = run("search", "--interactive", "--user", "alice", "--embedder", "none")
    assert "Prefers tea." in told
    assert "no memories in" in told
    assert "give one" in run("search", "--user", "alice", fails=True)


# What is held, and of other users.


def test_no_command_shows_what_is_held_unless_it_is_asked_for(run, hotel):
    alice = ("--user", "alice")
    for command in (
        ("ls", "alice"),
        ("ls", "alice", "--memories"),
        ("ls", "alice", "--archived"),
        ("ls", "hotel"),
        ("ls",),
        (),
        ("search", "zebra", *alice, "--embedder", "none"),
        ("stats",),
    ):
        told = run(*command)
        assert "zebra" not in told
        assert not re.search(r"\bid held\b", told)
    for command in (
        ("show", "held"),
        ("history", "held"),
        ("why", "zebra", "held", "--embedder", "none"),
        ("rm", "held"),
        ("restore", "held"),
        ("edit", "held", "tame", "--embedder", "none"),
        ("rm", "held", "--forever", "--yes"),
    ):
        assert "this user has no" in run(*command, *alice, fails=True)
    assert "a held zebra" in run("ls", "alice", "--held")
    assert "quarantined" in run("show", "held", "--held", *alice)
    assert "it is held" in run("why", "zebra", "held", "--held", *alice)
    run("restore", "held", "--held", *alice)
    assert "zebra" in run("search", "zebra", *alice, "--embedder", "none")


def test_no_command_of_a_user_reaches_another(run, hotel):
    alice = ("--app", "hotel", "--user", "alice")
    for command in (
        ("show", "bob"),
        ("history", "bob"),
        ("rm", "bob"),
        ("rm", "bob", "--forever", "--yes"),
        ("restore", "bob"),
        ("edit", "bob", "text", "--embedder", "none"),
        ("why", "secret", "bob", "--embedder", "none"),
    ):
        assert "this user has no" in run(*command, *alice, fails=True)
    for command in (
        ("search", "secret", *alice, "--embedder", "none"),
        ("forget", "secret", *alice, "--yes", "--embedder", "none"),
        ("ls", "hotel", "alice", "--memories"),
    ):
        assert "bobs" not in run(*command)
    assert "bobs secret" in run("show", "bob", "--user", "bob")


# For people, and for programs.


def _everything():
    alice = ("--user", "alice")
    plain = ("--embedder", "none")
    return [
        (),
        ("ls",),
        ("ls", "hotel"),
        ("ls", "hotel", "alice"),
        ("ls", "hotel", "alice", "trip"),
        ("ls", "alice", "--memories"),
        ("ls", "alice", "--archived"),
        ("ls", "alice", "--held"),
        ("search", "quiet room 静かな", *alice, *plain, "--explain"),
        ("why", "quiet", "tea", *alice, *plain),
        ("show", "tea", *alice),
        ("history", "tea", *alice),
        ("edit", "tea", "Prefers coffee. 珈琲", *alice, *plain),
        ("rm", "tea", *alice),
        ("restore", "tea", *alice),
        ("forget", "coffee", *alice, *plain, "--yes"),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(run, hotel, monkeypatch, width):
    """But for ids, paths and names: unbroken, they can be copied."""
    monkeypatch.setenv("COLUMNS", str(width))
    whole = re.compile(r"^ *id \S+$|^vecall 0|^  vecall |vecall (restore|history) ")
    for command in _everything():
        told = run(*command)
        assert told.strip(), command
        for line in told.splitlines():
            assert text_width(line) <= width or whole.search(line), (command, line)
        assert "\x1b" not in told  # not a terminal
    assert run("ls", "alice", "--memories").count("\n") > 8


def test_a_pipe_gets_each_text_on_one_line(run, hotel):
    lines = run("ls", "alice", "--memories").splitlines()
    assert {line.strip() for line in lines} >= {" ".join(t.split()) for t in TEXTS}
    for command in _everything():
        assert "\x1b" not in run(*command)


def _on_a_terminal(*arguments, **environment):
    """What a command shows on a terminal of 60 columns."""
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    command = [sys.executable, "-m", "vecall.cli.main", *arguments]
    known = {**os.environ, "TERM": "xterm", **environment}
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=known
    ) as process:
        os.close(slave)
        told = b""
        while True:
            try:
                told += os.read(master, 65_536)
            except OSError:  # the other end is closed
                break
        assert process.wait() == 0, told
    os.close(master)
    return told.decode()


def test_colours_are_for_a_terminal_that_wants_them(hotel):
    show = ("ls", "alice", "--memories")
    told = _on_a_terminal(*show)
    assert "\x1b[1m" in told
    plain = re.sub("\x1b\\[[012]m", "", told)
    assert max(map(text_width, plain.replace("\r", "").splitlines())) == 60
    assert "\x1b" not in _on_a_terminal(*show, NO_COLOR="1")


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("漢字", 4),
        ("ｶﾅ", 2),
        ("カナ", 4),
        ("한국", 4),
        ("e\u0301", 1),
        ("नमस्ते", 4),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩\u200d🚀", 2),
        ("❤\ufe0f", 2),
        ("🇩🇪", 2),
        ("שלום", 4),
        ("ก็", 1),
    ],
)
def test_a_text_takes_the_columns_of_a_terminal(text, width):
    assert text_width(text) == width


def _parsers(command, path=()):
    yield path, command
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                if each.prog.endswith(name):  # not an alias
                    yield from _parsers(each, (*path, name))


def test_every_help_has_an_example_that_is_right(capsys):
    names = set()
    for path, command in _parsers(command_parser()):
        name = " ".join(path)
        names.add(name)
        told = command.format_help()
        assert f"example: vecall {name}".rstrip() in " ".join(told.split()), name
        if name not in ("", "hook"):
            command_parser().parse_args([*path, *shlex.split(EXAMPLES[name])])
    assert names - {""} == EXAMPLES.keys()


# What lasts.


def test_progress_has_a_rate_and_the_time_that_is_left(folder):
    with MemoryService("memory.db", embedder=None) as service:
        service.sync.user("a", "u").add([f"night {n}" for n in range(300)])
    (folder / "slow.py").write_text(
        "import time, numpy\nfrom vecall import FunctionEmbedder\n"
        "def vectors(texts):\n    time.sleep(0.2)\n"
        "    return numpy.ones((len(texts), 4), numpy.float32)\n"
        "first = FunctionEmbedder(vectors, model_id='m', dimensions=4)\n"
    )
    told = _on_a_terminal("reembed", "--embedder", "slow:first")
    assert re.search(r"embedding \d+, [\d.]+/s, \d+%, 0:0\d left", told)


def test_summing_up_shows_a_rate_and_the_time_that_is_left(folder):
    with MemoryService("memory.db", embedder=None) as service:
        user = service.sync.user("a", "u")
        for night in range(8):
            turns = [{"content": f"{night}.{n}", "timestamp": 1e9} for n in range(5)]
            user.add_events(turns, session_id=f"s{night}")
    (folder / "slow.py").write_text(
        "import time\ndef summary(prompt):\n    time.sleep(0.2)\n    return 'nights'\n"
    )
    given = ("--older-than", "1d", "--summarizer", "slow:summary", "--yes")
    told = _on_a_terminal("consolidate", *given, "--embedder", "none")
    assert re.search(r"consolidating \d+, [\d.]+/s, \d+%, 0:0\d left", told)
    assert "40 summed up into 8 summaries" in told


def test_an_interrupt_ends_a_command_and_says_what_was_done(folder):
    with MemoryService("memory.db", embedder=None) as service:
        service.sync.user("a", "u").add([f"night {n}" for n in range(400)])
    (folder / "slow.py").write_text(
        "import time, numpy\nfrom vecall import FunctionEmbedder\n"
        "def vectors(texts):\n    print('embeds', flush=True)\n    time.sleep(2.0)\n"
        "    return numpy.ones((len(texts), 4), numpy.float32)\n"
        "first = FunctionEmbedder(vectors, model_id='m', dimensions=4)\n"
    )
    command = [sys.executable, "-m", "vecall.cli.main", "reembed"]
    with subprocess.Popen(
        [*command, "--embedder", "slow:first"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(3):
            process.stdout.readline()
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        seconds = time.monotonic() - begin
    assert process.returncode == 130
    assert re.search(r"interrupted: embedding: \d+ of 400 done; the same command", told)
    assert "Traceback" not in told
    assert seconds < 10  # the figure is a second; others load this machine

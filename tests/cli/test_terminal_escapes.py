"""No command prints what a terminal obeys, on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import pytest
from vecall import MemoryService
from vecall.cli.console import one_line, shown
from vecall.cli.main import main

pytestmark = pytest.mark.filterwarnings("ignore:the file holds vectors")

PAYLOADS = [
    "\x1b]0;TITLE\x07", "\x1b]52;c;cm0=\x07", "\x1b[2J\x1b[H", "\x1b[8mhid\x1b[0m",
    "\x1b]8;;http://evil/\x1b\\click\x1b]8;;\x1b\\", "\x1bP+q544e\x1b\\", "\x9b31m",
    "\x9d0;X\x9c", "\x07", "safe\x08\x08evil", "a\rb", "\u202egnp.exe", "a\u200bb",
    "\U000e0041", "\x1b[?1049h", "\x1b[6n", "\x0b", "\x7f", "\x0e", "\u2066x",
    "\ufdd0bold",
]  # fmt: skip
ALL = "".join(PAYLOADS)
ALLOWED = re.compile("\x1b\\[[012]m|\r\\n")  # vecall's own, and a terminal's line end


def raw(text):
    """The characters that a terminal would obey or not show."""
    left = ALLOWED.sub("", text)
    return {
        char
        for char in left
        if char != "\n" and (not char.isprintable() or char in "\u202e\u200b\u2066")
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "memory.db"
    with MemoryService(path, embedder=None) as memory:
        entries = [
            {"content": f"zebra {each} end", "id": str(n), "author": f"au{each}thor",
             "kind": f"k{each}"}
            for n, each in enumerate(PAYLOADS)
        ]  # fmt: skip
        memory.sync.add_memory(app_name="a", user_id="u", memories=entries)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number, state in ((1, "active"), (2, "migrating")):
            connection.execute(
                "INSERT INTO model (id, name, dim, state) VALUES (?, ?, 8, ?)",
                (number, f"m{ALL}", state),
            )
    (tmp_path / "bad.jsonl").write_text(
        json.dumps({"app_name": f"a{ALL}", "user_id": "u", "text": "t", "kind": 5})
        + "\n"
    )
    header = {"name": f"m{ALL}", "dim": 4, "fingerprint": None}
    (tmp_path / "export.jsonl").write_text(
        json.dumps(
            {"vecall": "export", "format": 1, "model": header}, separators=(",", ":")
        )
    )
    return path


SEARCH = ("search", "zebra", "--app", "a", "--user", "u", "--top-k", "100")
COMMANDS = [
    (*SEARCH, "--embedder", "none"),
    (*SEARCH, "--embedder", "none", "--json"),
    (*SEARCH, "--embedder", f"no{ALL}"),
    (*SEARCH, "--after", f"2{ALL}"),
    ("ls", "u", "--memories"),
    ("ls", "--memories", "--csv"),
    *(("show", str(n)) for n in range(len(PAYLOADS))),
    ("show", f"no{ALL}"),
    ("history", "3"),
    ("why", "zebra", "0", "--embedder", "none"),
    ("ls", f"no{ALL}"),
    ("rm", f"no{ALL}"),
    ("stats",),
    ("stats", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("export", "-"),
    ("export", f"no/such/{ALL}".replace("\x00", "")),
    ("backup", f"no/such/{ALL}"),
    ("import", "bad.jsonl"),
    ("import", "export.jsonl"),
    ("import", f"no{ALL}"),
    ("reembed", "--embedder", f"no{ALL}:thing"),
    ("purge", "--json"),
    (f"none{ALL}",),
    ("stats", "--path", f"no{ALL}.db"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: " ".join(each)[:24])
def test_a_pipe_gets_no_escape(command, file, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    monkeypatch.setenv("VECALL_DEBUG", "1")
    with suppress(SystemExit):
        main(list(command))
    out, err = capfd.readouterr()
    assert out or err
    assert raw(out) == raw(err) == set()


def test_a_terminal_gets_no_escape_but_those_of_vecall(file, tmp_path):
    command = [sys.executable, "-m", "vecall.cli.main", *COMMANDS[0]]
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "VECALL_PATH": "memory.db"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, env=environment
    ) as process:
        os.close(slave)
        data = b""
        try:
            while some := os.read(master, 65_536):
                data += some
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
    os.close(master)
    told = data.decode()
    assert "\x1b[1m" in told  # it is a terminal, with colours
    assert told.count("zebra") == len(PAYLOADS)
    assert raw(told) == set()


def test_tokens_are_listed_without_escapes(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    assert (
        main(["token", "create", "--app", "h\x1b[2J", "--user", "u\x1b]0;X\x07"]) == 0
    )
    assert main(["token", "list"]) == 0
    out, err = capfd.readouterr()
    assert "app=h" in out
    assert raw(out) == raw(err) == set()


@pytest.mark.parametrize("text", ["plain", "Größe 漢字 नमस्ते", "👩\u200d🚀 ok", "a\nb"])
def test_what_people_write_is_shown_as_it_is(text):
    assert shown(text) == text


def test_a_value_cannot_forge_a_line():
    assert one_line("a\nERROR\u2028b\x85c") == "a ERROR b c"

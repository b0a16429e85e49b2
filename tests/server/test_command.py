"""`vecall serve` and `vecall token`, as their users run them."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import signal
import socket
import subprocess
import sys
import time

import pytest
from vecall import StorageOptions

pytest.importorskip("httptools")
pytest.importorskip("httpx")

import httpx
from helpers.clocks import DAY, SettableClock
from helpers.http import ALICE, bearing, error_of, vecall_process
from helpers.processes import child, said
from vecall import ConfigError, MemoryService, VecallError
from vecall.cli import serve_commands as serving
from vecall.cli.options import add_commands, import_function
from vecall.server import HttpLimits, TokenFile, Tokens, create_app
from vecall.server.run import Binding, is_loopback, open_listening_socket, serve

# The commands alone, so that what is tested does not depend on the others.
COMMAND = """
import argparse, sys
from vecall.cli import serve_commands as serving
from vecall.cli.options import add_commands
top = argparse.ArgumentParser()
add_commands(top.add_subparsers(required=True), serving.command, serving.command)
options = top.parse_args()
sys.exit(options.run(options))
"""
LOADER = """
import logging
async def find(*, app_name, user_id, session_id):
    place, *_ = logging.getLogger().findCaller()
    record = logging.makeLogRecord({"name": "own"})
    assert place == __file__ and record.thread and record.process  # as without a server
    if session_id == "trip":
        event = {"id": "1", "author": "user", "text": "Zebra."}
        return {"appName": app_name, "userId": user_id, "id": "trip", "events": [event]}
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run one command in a folder of its own; return its code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VECALL_PATH", "memory.db")
    top = argparse.ArgumentParser()
    add_commands(top.add_subparsers(required=True), serving.command, serving.command)

    def run_command(*arguments):
        options = top.parse_args(arguments)
        code = options.run(options)
        return code, capsys.readouterr()

    return run_command


def test_a_file_is_served_until_the_process_is_asked_to_end(run, tmp_path):
    """Token, server, requests, SIGTERM; what was added is in the file. S0.47, S0.52."""
    (tmp_path / "sessions_here.py").write_text(LOADER)
    bearer = run("token", "create", "--app", "hotel")[1].out.strip()
    arguments = [
        "serve",
        "--embedder",
        "none",
        "--port",
        "0",
        "--session-loader",
        "sessions_here:find",
    ]
    with child("import sys; sys.path.insert(0, '')\n" + COMMAND, *arguments) as server:
        url = said(server).removeprefix("serving ")
        with httpx.Client(base_url=url, headers=bearing(bearer)) as client:
            body = {"sessionId": "trip"}
            ids = client.patch(f"{ALICE}/memory", json=body).json()["ids"]
            assert client.patch(f"{ALICE}/memory", json=body).json()["ids"] == ids
            gone = client.patch(f"{ALICE}/memory", json={"sessionId": "x"})
            assert gone.status_code == 404
            late = run("token", "create", "--app", "other", "--json")[1].out
            answer = client.get(
                "/apps/other/users/u/memories",
                headers=bearing(json.loads(late)["token"]),
            )
            assert answer.status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    assert (tmp_path / "memory.db").stat().st_mode & 0o777 == 0o600
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        kept = memory.sync.list_memories(app_name="hotel", user_id="alice")
    assert [entry.text for entry in kept] == ["Zebra."]


@pytest.mark.parametrize("tokens", [[], ["--tokens", "other"]])
def test_a_path_that_names_no_file_makes_none(run, tmp_path, tokens):
    """Refused with the command that begins a new file, which then works."""
    arguments = ["serve", "--port", "0", "--path", "typo.db", *tokens]
    code, printed = run(*arguments)
    assert code == 2
    assert list(tmp_path.iterdir()) == []
    command = printed.err.partition("vecall token ")[2].replace("APP", "hotel").split()
    assert command[:3] == ["create", "--path", "typo.db"]
    assert run("token", *command)[0] == 0
    with vecall_process(*arguments) as server:
        assert said(server).startswith("serving ")
    assert (tmp_path / "typo.db").exists()


def test_what_is_asked_of_the_command_holds_for_its_server(run, tmp_path):
    """Limits, time to live, trigger and the folder of backups."""
    bearer = run("token", "create", "--app", "hotel")[1].out.strip()
    admin = run("token", "create", "--admin")[1].out.strip()
    given = "--max-batch 2 --max-body-bytes 1000 --ttl 30d --trigger message_count:2"
    arguments = [
        "serve",
        "--embedder",
        "none",
        "--port",
        "0",
        *given.split(),
        "--backups",
        "copies",
    ]
    turns = [{"content": f"Turn {number}."} for number in range(2)]
    with vecall_process(*arguments) as server:
        url = said(server).removeprefix("serving ")
        with httpx.Client(base_url=url, headers=bearing(bearer)) as client:
            path = f"{ALICE}/memories"
            for many, status in ((2, 201), (3, 422), (300, 413)):
                body = {"memories": [f"Memory {number}." for number in range(many)]}
                assert client.post(path, json=body).status_code == status
            path = f"{ALICE}/sessions/trip/observe"
            assert client.post(path, json={"events": turns}).json() == {"ids": []}
            answer = client.post("/admin/backup", headers=bearing(admin))
            assert answer.status_code == 201
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    (copy,) = (tmp_path / "copies").iterdir()
    assert copy.name == answer.json()["name"]
    assert (tmp_path / "copies").stat().st_mode & 0o777 == 0o700
    clock = SettableClock(time.time() + 29 * DAY)
    with MemoryService(
        tmp_path / "memory.db", storage=StorageOptions(clock=clock), embedder=None
    ) as memory:

        def left():
            return memory.sync.list_memories(app_name="hotel", user_id="alice")

        assert len(left()) == 4
        clock.let_pass(2 * DAY)
        assert left() == []


def test_a_server_that_may_only_read_answers_and_writes_nothing(run, tmp_path):
    """403 for every write; the file stays as it was."""
    bearer = run("token", "create", "--app", "hotel")[1].out.strip()
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        memory.sync.add_memory(app_name="hotel", user_id="alice", memories=["Tea."])
    with vecall_process(
        "serve", "--embedder", "none", "--port", "0", "--read-only"
    ) as server:
        url = said(server).removeprefix("serving ")
        with httpx.Client(base_url=url, headers=bearing(bearer)) as client:
            found = client.post(f"{ALICE}/memories/search", json={"query": "tea"})
            assert len(found.json()["memories"]) == 1
            body = {"memories": ["x"]}
            answer = client.post(f"{ALICE}/memories", json=body)
            assert error_of(answer) == (403, "read_only")


def test_every_limit_of_the_server_is_an_option_of_the_command():
    """By the same name and of the same kind."""
    top = argparse.ArgumentParser()
    add_commands(top.add_subparsers(required=True), serving.command, serving.command)
    for field in dataclasses.fields(HttpLimits):
        flag = f"--{field.name.replace('_', '-')}"
        options = vars(top.parse_args(["serve", flag, "7"]))
        assert repr(options[field.name]) == {"int": "7", "float": "7.0"}[field.type]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-batch", "0"],
        ["--header-seconds", "nan"],
        ["--trigger", "sometimes"],
        ["--trigger", "inactivity"],
        ["--trigger", "inactivity:soon"],
        ["--trigger", "session_end:5"],
        ["--trigger", "message_count:0"],
        ["--ttl", "soon"],
        ["--ttl", "0d"],
        ["--backups", "no/such/folder"],
        ["--session-loader", "no_such:find"],
        ["--on-write", "no_such:judge"],
        ["--quota-memories", "-1"],
        ["--on-write", "json:__name__"],
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_served(run, arguments):
    """Each is an error with a sentence, not a server that does something else."""
    run("token", "create", "--app", "hotel")
    with pytest.raises(VecallError):
        run("serve", "--embedder", "none", "--port", "0", *arguments)


WITHOUT = """
import sys
for name in sys.argv[1].split():
    sys.modules[name] = None
import vecall
with vecall.MemoryService(embedder=None) as memory:
    memory.sync.add_memory(app_name="a", user_id="u", memories=["Tea."])
try:
    import vecall.server
except ImportError as error:
    print(error)
from vecall.cli.main import main
print(main(["serve", "--port", "0"]), main(["token", "create", "--app", "a"]))
"""


@pytest.mark.parametrize(
    "absent", ["starlette", "uvicorn", "httptools", "starlette uvicorn httptools"]
)
def test_without_the_extra_only_the_server_is_missing(tmp_path, absent):
    """S0.51: `import vecall` works; what needs the extra names it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, absent],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "vecall.server needs starlette, uvicorn and httptools: "
        'pip install "vecall[server]"',
        "1 1",
    ]
    for line in done.stderr.splitlines():
        assert "vecall[server]" in line
    assert not list(tmp_path.iterdir())


def test_importing_vecall_imports_nothing_of_the_server():
    """S0.51."""
    names = "{'starlette', 'uvicorn', 'httptools'}"
    code = f"import sys, vecall; print({names} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0"], "without TLS"),
        (["--host", "::"], "without TLS"),
        (["--host", "memory.example.com"], "without TLS"),
        (["--host", "0.0.0.0", "--insecure-bind"], "no token"),
        (["--tls-key", "key.pem"], "certificate and a key"),
    ],
)
def test_it_refuses_to_listen_to_other_machines_unsafely(run, arguments, why):
    """Exit status 2 and one sentence; no file is made."""
    code, printed = run("serve", *arguments)
    assert code == 2
    assert why in printed.err
    assert len(printed.err.splitlines()) == 1


def test_no_environment_variable_opens_it(run, monkeypatch):
    """Only the command line says that it may be insecure."""
    for name in ("VECALL_INSECURE", "VECALL_INSECURE_BIND", "INSECURE_BIND"):
        monkeypatch.setenv(name, "1")
    assert run("serve", "--host", "0.0.0.0")[0] == 2


def test_other_machines_are_listened_to_with_tokens_tls_and_a_name(tmp_path):
    """Each of them is needed."""
    file = tmp_path / "x.pem"
    tls = {"certificate": file, "key": file}
    name = {"hosts": ["memory.example.com"]}
    Binding(host="0.0.0.0", **tls, **name).check_address(tokens=1)
    Binding(host="0.0.0.0", insecure=True, **name).check_address(tokens=1)
    for binding, tokens in (
        (Binding(host="0.0.0.0", **tls, **name), 0),
        (Binding(host="0.0.0.0", **tls), 1),
        (Binding(host="0.0.0.0", **name), 1),
    ):
        with pytest.raises(ConfigError):
            binding.check_address(tokens=tokens)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("127.0.0.1.evil.com", False),
        ("localhost.evil.com", False),
        ("10.0.0.1", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host, loopback):
    """What cannot be told is not this machine."""
    assert is_loopback(host) is loopback


def test_tokens_are_made_shown_and_taken_back(run, tmp_path):
    """The file holds no token; the list shows whom they let in."""
    alice = ["--app", "hotel", "--user", "alice"]
    made = json.loads(run("token", "create", *alice, "--read-only", "--json")[1].out)
    assert run("token", "create", "--admin", "--expires", "30d")[0] == 0
    file = TokenFile(tmp_path / "memory.db.tokens")
    first, second = file.read()
    assert (first.app, first.user, first.read_only) == ("hotel", "alice", True)
    assert (second.app, second.admin) == (None, True)
    assert second.expires_at > 4e8
    assert file.find(made["token"]) == first

    listed = json.loads(run("token", "list", "--json")[1].out)["tokens"]
    assert [item["id"] for item in listed] == [first.id, second.id]
    shown = run("token", "list")[1].out
    for text in (shown, json.dumps(listed)):
        assert first.sha256 not in text
        assert made["token"] not in text
    line = f"{first.id} app=hotel user=alice read_only=True last_used=never"
    assert line in shown.splitlines()
    table = list(csv.DictReader(run("token", "list", "--csv")[1].out.splitlines()))
    assert [(row["id"], row["user"]) for row in table] == [
        (first.id, "alice"),
        (second.id, ""),
    ]

    assert run("token", "revoke", first.id)[0] == 0
    assert file.read() == [second]
    with pytest.raises(ConfigError):
        run("token", "revoke", first.id)


@pytest.mark.parametrize(
    "arguments", [[], ["--user", "a"], ["--admin", "--app", "x"], ["--app", ""]]
)
def test_a_token_needs_an_app_or_to_be_an_admins(run, tmp_path, arguments):
    """Nothing is written otherwise."""
    with pytest.raises(ConfigError):
        run("token", "create", *arguments)
    assert not (tmp_path / "memory.db.tokens").exists()


@pytest.mark.parametrize("given", ["soon", "30", "30y", "2030-01-01", "-1d"])
def test_an_expiry_is_a_length_of_time_or_a_time_with_an_offset(run, given):
    """Refused otherwise."""
    with pytest.raises((ConfigError, ValueError)):
        run("token", "create", "--app", "hotel", f"--expires={given}")


def test_an_expiry_as_a_time_is_taken_as_it_is(run, tmp_path):
    """ISO 8601."""
    run("token", "create", "--app", "a", "--expires", "2100-01-01T00:00:00+00:00")
    (token,) = TokenFile(tmp_path / "memory.db.tokens").read()
    assert token.expires_at == 4_102_444_800.0


@pytest.mark.parametrize("given", ["", "nothing", "json:nothing", "no_such:find", ":x"])
def test_a_session_loader_that_cannot_be_imported_is_refused(given):
    """Before anything listens."""
    with pytest.raises(ConfigError):
        import_function(given, "session-loader")


def test_answers_are_sent_without_waiting_for_acknowledgements():
    """Nagle's algorithm would add 40 ms to each."""
    with (
        open_listening_socket(Binding(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_address_that_is_taken_is_an_error():
    """Named before anything is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        binding = Binding(port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="listened on"):
            serve(create_app(None, tokens=Tokens()), binding, HttpLimits(), print)

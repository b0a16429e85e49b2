"""`vecall pg init`, `migrate` and `doctor`, run as their users run them."""

from __future__ import annotations

import json

import pytest
from helpers.postgres_server import MISSING, is_available, shared_server
from vecall import ConfigError, IncompatibleFileError, MemoryService
from vecall.cli.main import main

pytest.importorskip("psycopg")
from vecall.store.postgres.schema import NEWEST


@pytest.fixture
def server():
    if not is_available():
        pytest.skip(MISSING)
    return shared_server()


@pytest.fixture
def run(capsys):
    """Run a command; return its exit status and its output."""

    def run_command(*arguments):
        code = main(["pg", *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run_command


@pytest.fixture
def name(server):
    yield "commands"
    server.execute("DROP SCHEMA IF EXISTS commands CASCADE")


def test_init_makes_a_database_that_a_server_can_use_and_can_be_repeated(
    server, name, run
):
    if not server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'server'"):
        server.execute("CREATE ROLE server LOGIN")
    admin = server.url(schema=name)
    for _ in range(2):
        assert run("init", admin, "--login", "server")[0] == 0
    code, out = run("migrate", admin, "--json")
    assert (code, json.loads(out)) == (0, {"before": NEWEST, "now": NEWEST})
    url = server.url("server", schema=name)
    with MemoryService(url, embedder=None).sync as memory:
        memory.user("hotel", "alice").add(["Prefers tea."])
    code, out = run("doctor", url, "--json")
    found = {each["about"]: each for each in json.loads(out)["findings"]}
    assert found["memories"]["message"] == "1 pass their checksum"
    assert code == int(any(each["level"] == "error" for each in found.values()))


def test_a_database_without_a_schema_is_refused_by_name(server, name, run):
    url = server.url("admin", schema=name)
    with pytest.raises(ConfigError, match=r"no schema commands.*vecall pg init"):
        MemoryService(url, embedder=None)
    code, out = run("doctor", url)
    assert code == 1
    assert "vecall pg init" in out


def test_a_schema_of_another_number_is_refused_naming_both(schema, run):
    def renumber(number):
        schema.server.execute(
            f"UPDATE {schema.name}.meta SET value = '{number}' WHERE key = 'schema'"
        )

    renumber(7)
    with pytest.raises(IncompatibleFileError, match=rf"schema 7.*schema {NEWEST}"):
        MemoryService(schema.url, embedder=None)
    code, out = run("migrate", schema.server.url(schema=schema.name))
    assert code == 1
    assert "schema 7" in out
    assert f"schema {NEWEST}" in out


SECRET = "s3cr3t-passw0rd"


@pytest.mark.parametrize("action", ["init", "migrate", "doctor"])
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:{}@/none?host=/nonexistent",
        "postgresql://u:{}@127.0.0.1:1/none",
        "postgresql://u:{}@localhost:notaport/x",
        "postgresql://u:{}@/x?schema=BAD",
        "postgresql://u:{}@/x?host=/nonexistent&keeper_url=mysql",
        "postgresql://u:{}@/x?nonsense=1",
        "sqlite://u:{}@x",
    ],
)  # fmt: skip
def test_a_database_that_cannot_be_reached_is_an_error_without_the_password(
    run, action, url
):
    code, out = run(action, url.format(SECRET))
    assert code == 1
    assert out.startswith("vecall: ")
    assert SECRET not in out
    with pytest.raises(Exception, match=r"path|database") as caught:
        MemoryService(url.format(SECRET).replace("sqlite", "postgres"), embedder=None)
    assert SECRET not in repr(caught.value)


def test_a_login_that_does_not_exist_is_refused(server, name, run):
    code, out = run("init", server.url(schema=name), "--login", "never_created")
    assert code == 1
    assert "no role of that name" in out


def test_a_role_that_may_not_create_roles_is_refused(schema, run):
    code, out = run("init", schema.url)
    assert code == 1
    assert "refused access" in out


def test_the_shell_lists_corrects_and_explains_in_a_database(schema, capsys):
    owner = {"app_name": "hotel", "user_id": "alice"}
    with MemoryService(schema.url, embedder=None).sync as memory:
        memory.add_memory(**owner, memories=[{"id": "tea", "content": "Prefers tea."}])
    at = ("--path", schema.url)

    def run_json(*arguments):
        assert main([*arguments, *at, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert run_json("ls")["apps"][0]["users"] == 1
    assert run_json("ls", "alice")["memories"][0]["id"] == "tea"
    run_json("edit", "tea", "Prefers coffee.", "--embedder", "none")
    shown = run_json("show", "tea")
    assert shown["memory"]["text"] == "Prefers coffee."
    assert [each["memory"]["content"] for each in shown["history"]] == ["Prefers tea."]
    why = ("why", "coffee", "tea", "--embedder", "none")
    assert run_json(*why)["outcome"] == "found"
    run_json("rm", "tea")
    assert run_json(*why)["outcome"] == "archived"
    assert main(["ls", "alcie", *at]) == 1
    assert "the nearest names: alice" in capsys.readouterr().err

"""Commands, the HTTP server, a configuration and google-adk over a database."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec

import pytest
from helpers.processes import child, said
from vecall import ConfigError, MemoryConfig, MemoryService
from vecall.cli.main import main

ALICE = {"app_name": "hotel", "user_id": "alice"}
TURN = {**ALICE, "author": "user", "text": "Prefers a quiet room.", "id": "1"}
SECRET = "hush-4711"
NEEDS_SERVER = pytest.mark.skipif(not find_spec("uvicorn"), reason="needs uvicorn")
NEEDS_ADK = pytest.mark.skipif(not find_spec("google.adk"), reason="needs google-adk")
COMMAND = "import sys; from vecall.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def url(schema) -> str:
    """The URL of a database, with a password that the server does not ask for."""
    return schema.url.replace("server@", f"server:{SECRET}@")


@pytest.fixture
def run(capsys):
    """Run a command; return its status, and all that it printed without a password."""

    def run_command(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        return code, printed.out or printed.err

    return run_command


def test_commands_that_take_a_path_take_the_url_of_a_database(url, run, tmp_path):
    file = tmp_path / "memories.jsonl"
    file.write_text(json.dumps(TURN) + "\n")
    given = ["--path", url, "--json"]
    plain = ["--embedder", "none", *given]
    assert json.loads(run("import", str(file), *plain)[1])["memories"] == 1
    who = ["--app", "hotel", "--user", "alice"]
    found = json.loads(run("search", "room", *who, *plain)[1])["memories"]
    assert [each["content"] for each in found] == [TURN["text"]]
    facts = json.loads(run("stats", *given)[1])
    assert (facts["memories"], facts["users"]) == (1, 1)
    copy = tmp_path / "copy.jsonl"
    assert json.loads(run("export", str(copy), *given)[1]) == {"memories": 1}
    assert TURN["text"] in copy.read_text()
    assert run("consolidate", *who, *plain)[0] == 0
    assert run("purge", *given)[0] == 0
    assert "warn" not in run("purge", *given)[1].lower()
    about = {each["about"] for each in json.loads(run("doctor", *given)[1])["findings"]}
    assert {"schema", "memories"} <= about
    assert not list(tmp_path.glob("*postgres*"))


@pytest.mark.parametrize(
    ("command", "means"),
    [
        (["demo"], "creates a new file"),
        (["backup", "copy.db"], "pg_dump"),
        (["doctor", "--repair"], "restore a backup"),
        (["doctor", "--reset-clock"], "restore a backup"),
        (["doctor", "--recover", "new.db"], "restore a backup"),
        (["token", "create", "--app", "hotel"], "--tokens"),
        (["serve"], "--tokens"),
        (["serve", "--tokens", "t", "--backups", "b"], "pg_dump"),
    ],
)
def test_commands_for_files_refuse_a_database_and_name_the_means(
    command, means, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out = run(*command, "--path", f"postgresql://u:{SECRET}@example.org/db")
    assert code == 1
    assert "postgresql://example.org/db: is a database" in out
    assert means in out
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_reached_is_named_without_its_password(run):
    code, out = run(
        "stats", "--path", f"postgresql://u:{SECRET}@127.0.0.1:1/db?sslmode=disable"
    )
    assert (code, out) == (
        1,
        "vecall: postgresql://127.0.0.1:1/db: the database cannot be reached, or ended "
        "the connection\n",
    )


@NEEDS_SERVER
def test_two_servers_answer_from_one_database(url, run, tmp_path):
    """With one file of tokens; the second finds what the first has acknowledged."""
    import httpx

    tokens = ["--tokens", str(tmp_path / "tokens")]
    bearer = run("token", "create", "--app", "hotel", *tokens)[1].strip()
    arguments = ["serve", "--path", url, *tokens, "--port", "0", "--embedder", "none"]
    with child(COMMAND, *arguments) as one, child(COMMAND, *arguments) as two:
        first, second = (said(each).removeprefix("serving ") for each in (one, two))
        with httpx.Client(headers={"Authorization": f"Bearer {bearer}"}) as client:
            path = "/apps/hotel/users/alice/memories"
            body = {"memories": [{"content": TURN["text"], "id": "1"}]}
            added = client.post(first + path, json=body)
            assert added.is_success
            found = client.post(f"{second}{path}/search", json={"query": "room"})
            assert [each["id"] for each in found.json()["memories"]] == ["1"]
        for each in (one, two):
            each.terminate()
            assert each.wait(20) == 0
            assert SECRET not in each.stdout.read()


def test_a_configuration_names_a_database(schema, open_service):
    config = MemoryConfig(vector_store=schema.url, search_top_k=1)
    service = config.build()
    assert isinstance(service, MemoryService)
    service.sync.add_memory(**ALICE, memories=["quiet room", "quiet floor"])
    service.close()
    other = open_service(schema.url, embedder=None)
    assert len(other.sync.search_memory(**ALICE, query="quiet").memories) == 2
    shown = repr(MemoryConfig(vector_store=f"postgresql://u:{SECRET}@example.org/db"))
    assert SECRET not in shown


@NEEDS_ADK
def test_google_adk_opens_a_database_by_its_uri(url):
    """Options of the service are taken from the URI; the rest is the database's."""
    from google.adk.cli.service_registry import get_service_registry
    from vecall.adk import VecallMemoryService, register

    assert register(embedder=None)
    uri = f"vecall+{url}&top_k=1&max_staleness=0.5"
    service = get_service_registry().create_memory_service(uri, agents_dir=".")
    assert isinstance(service, VecallMemoryService)
    service.memory.sync.add_memory(**ALICE, memories=["quiet room", "quiet floor"])
    found = asyncio.run(service.search_memory(**ALICE, query="quiet"))
    assert len(found.memories) == 1
    service.close()
    with MemoryService(url, embedder=None).sync as memory:
        assert len(memory.search_memory(**ALICE, query="quiet").memories) == 2


@NEEDS_ADK
@pytest.mark.parametrize(
    "uri",
    [
        f"vecall+postgresql://u:{SECRET}@example.org/db?top_k=1&top_k=2",
        f"vecall+postgresql://u:{SECRET}@example.org/db?top_k=many",
        f"vecall+postgresql://u:{SECRET}@example.org:none/db",
        f"vecall+postgresql://u:{SECRET}@example.org/db#part",
    ],
)
def test_a_wrong_uri_is_refused_without_repeating_it(uri):
    from vecall.adk import VecallMemoryService

    with pytest.raises(ConfigError) as refused:
        VecallMemoryService(uri=uri, embedder=None)
    assert SECRET not in str(refused.value)


YAML = """
services:
  - scheme: {scheme}
    type: memory
    class: vecall.adk.VecallMemoryService
"""


@NEEDS_ADK
def test_the_doctor_of_agents_examines_the_database_of_the_uri(url, run, tmp_path):
    def findings(uri):
        given = ["--agents", str(tmp_path), "--memory_service_uri", uri, "--json"]
        told = json.loads(run("doctor", *given)[1])["findings"]
        return {each["about"]: (each["level"], each["message"]) for each in told}

    services = tmp_path / "services.yaml"
    services.write_text(YAML.format(scheme="vecall"))
    uri = f"vecall+{url}&top_k=3"
    assert findings(uri)["services"][0] == "error"
    services.write_text(YAML.format(scheme="vecall+postgresql"))
    found = findings(uri)
    assert "services" not in found
    assert found["services.yaml"][0] == "ok"
    assert found["uri"] == ("ok", "postgresql:///postgres")
    assert found["memories"] == ("ok", "0 pass their checksum")
    assert findings(f"vecall+postgresql://u:{SECRET}@127.0.0.1:1/db")["uri"] == (
        "error",
        "the database cannot be reached, or ended the connection",
    )
    assert findings(f"{uri}&trigger=never")["uri"][0] == "error"


@NEEDS_ADK
def test_services_py_makes_both_schemes_known(url, run, tmp_path):
    (tmp_path / "services.py").write_text("import vecall.adk\nvecall.adk.register()\n")
    given = ["--agents", str(tmp_path), "--memory_service_uri", f"vecall+{url}"]
    assert "error" not in run("doctor", *given)[1].replace("0 errors", "")

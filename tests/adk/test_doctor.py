"""`vecall doctor --agents`: whether google-adk's server will have this memory."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("google.adk")

import vecall
from vecall.adk import VecallMemoryService
from vecall.adk.doctor import examine_agents, names_used_in_file
from vecall.cli.main import main

YAML = """
services:
  - scheme: vecall
    type: memory
    class: vecall.adk.VecallMemoryService
"""
FAILING = """
services:
  - scheme: other
    type: session
    class: no_such_package.Sessions
"""
URI = "vecall://./memory.db"
AGENT = """
raise SystemExit("an agent was run")
from google.adk.agents import LlmAgent
from google.adk.apps import App
from vecall.adk import VecallMemoryPlugin, load_memory
root_agent = LlmAgent(name="hotel", tools=[load_memory])
app = App(name="hotel", root_agent=root_agent, plugins=[VecallMemoryPlugin()])
"""


def a_folder(tmp_path: Path, agent: str = AGENT, **services: str) -> Path:
    """A folder with one agent; services by file name, "_" for the dot."""
    folder = tmp_path / "agents"
    (folder / "hotel").mkdir(parents=True)
    (folder / "hotel" / "__init__.py").write_text("")
    (folder / "hotel" / "agent.py").write_text(agent)
    for name, text in services.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def levels(folder: Path, uri: str | None = URI) -> dict[str, str]:
    return {each.about: each.level for each in examine_agents(folder, uri)}


def message(folder: Path, about: str, uri: str | None = URI) -> str:
    return " | ".join(
        each.message for each in examine_agents(folder, uri) if each.about == about
    )


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["services_yaml", "services_yml"])
def test_a_folder_in_order_is_ok_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    """S1.51: no file is made, no agent is run."""
    folder = a_folder(tmp_path, **{name: YAML})
    before = files_in(folder)
    assert levels(folder) == {
        "google-adk": "ok",
        name.replace("_", "."): "ok",
        "uri": "note",
        "hotel": "ok",
    }
    assert "will be made at the first start" in message(folder, "uri")
    assert message(folder, "hotel") == "uses load_memory, VecallMemoryPlugin"
    assert files_in(folder) == before


def test_the_file_of_the_uri_is_examined(tmp_path: Path) -> None:
    """S1.51: with the options that the URI has."""
    folder = a_folder(tmp_path, services_yaml=YAML)
    VecallMemoryService(folder / "memory.db", embedder=None).close()
    uri = f"{URI}?top_k=3&read_only=true&trigger=session_end"
    seen = levels(folder, uri)
    assert {"uri", "pages", "memories", "schema"} <= set(seen)
    assert "error" not in seen.values()
    (folder / "memory.db").write_bytes(b"no database at all " * 400)
    assert "error" in levels(folder).values()


@pytest.mark.parametrize(
    "code",
    [
        "import vecall.adk\nvecall.adk.register()\n",
        "from vecall import adk\nadk.register(top_k=3)\n",
        "from vecall.adk import register as known\nknown()\n",
        "import vecall.adk as door\ndoor.register()\n",
        "from google.adk.cli.service_registry import get_service_registry\n"
        "get_service_registry().register_memory_service('vecall', print)\n",
    ],
)
def test_a_services_module_may_make_the_scheme_known(tmp_path: Path, code: str) -> None:
    """S1.51, S3.11: it is read, not run."""
    folder = a_folder(tmp_path, services_py=f"raise SystemExit\n{code}")
    assert levels(folder)["services.py"] == "ok"
    assert "services" not in levels(folder)


WRONG: dict[str, tuple[dict[str, str], str, str]] = {
    "nothing": ({}, "services", "error"),
    "no YAML": ({"services_yaml": "services: [\n"}, "services.yaml", "error"),
    "a list": ({"services_yaml": "- vecall\n"}, "services.yaml", "error"),
    "a text": ({"services_yaml": "services: vecall\n"}, "services.yaml", "error"),
    "empty": ({"services_yaml": ""}, "services.yaml", "note"),
    "another": (
        {"services_yaml": YAML.replace("vecall\n", "v\n")},
        "services",
        "error",
    ),
    "a session": (
        {"services_yaml": YAML.replace("memory", "session")},
        "services.yaml",
        "warning",
    ),
    "no class": (
        {"services_yaml": YAML.replace("VecallMemoryService", "Vecall")},
        "services.yaml",
        "error",
    ),
    "no module": (
        {"services_yaml": YAML.replace("vecall.adk.", "vecalll.")},
        "services.yaml",
        "error",
    ),
    "no service": (
        {"services_yaml": YAML.replace("VecallMemoryService", "VecallMemoryPlugin")},
        "services.yaml",
        "error",
    ),
    "no Python": ({"services_py": "import vecall.adk as\n"}, "services.py", "error"),
    "NUL": ({"services_py": "import vecall\0\n"}, "services.py", "error"),
    "after another": (
        {"services_yaml": f"{FAILING}{YAML.replace('services:', '')}"},
        "services.yaml",
        "error",
    ),
    "something else": (
        {"services_py": "from vecall.adk import load_memory\n"},
        "services.py",
        "note",
    ),
    "not called": ({"services_py": "import vecall.adk\n"}, "services.py", "note"),
}


@pytest.mark.parametrize("wrong", WRONG, ids=WRONG)
def test_what_google_adk_only_logs_is_found(tmp_path: Path, wrong: str) -> None:
    """S1.51: each of these ends in "Unsupported memory service URI"."""
    services, about, level = WRONG[wrong]
    folder = a_folder(tmp_path, **services)
    seen = levels(folder)
    assert seen[about] == level
    assert seen["services"] == "error"
    assert main(["doctor", "--agents", str(folder), "--memory_service_uri", URI]) == 1


def knows_the_scheme(folder: Path) -> bool:
    """What google-adk itself makes of the services files."""
    registry = importlib.import_module("google.adk.cli.service_registry")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "_service_registry_instance", None)
        patched.setattr(sys, "path", list(sys.path))
        patched.delitem(sys.modules, "services", raising=False)
        importlib.invalidate_caches()
        registry.load_services_module(str(folder))
        try:
            made = registry.get_service_registry().create_memory_service(
                URI, agents_dir=str(folder)
            )
        except TypeError:  # a class, but no memory service
            return False
        finally:
            sys.modules.pop("services", None)
    if made is not None:
        made.close()
    return made is not None


@pytest.mark.parametrize("wrong", WRONG, ids=WRONG)
def test_google_adk_knows_the_scheme_where_the_doctor_says_so(
    tmp_path: Path, wrong: str
) -> None:
    """S1.51: the doctor and google-adk agree, in order or not."""
    for services, known in ((WRONG[wrong][0], False), ({"services_yaml": YAML}, True)):
        folder = a_folder(tmp_path / str(known), **services)
        assert knows_the_scheme(folder) is known
        assert ("services" not in levels(folder)) is known


@pytest.mark.parametrize("failing", ["services: [", FAILING])
def test_after_a_yaml_file_that_fails_no_services_module_is_read(
    tmp_path: Path, failing: str
) -> None:
    """S1.51: google-adk stops there."""
    register = "import vecall.adk\nvecall.adk.register()\n"
    folder = a_folder(tmp_path, services_yaml=failing, services_py=register)
    assert knows_the_scheme(folder) is False
    seen = levels(folder)
    assert "services.py" not in seen
    assert seen["services"] == "error"


def test_what_stands_before_an_entry_that_fails_counts(tmp_path: Path) -> None:
    """S1.51: so the scheme is known, and the other service is not."""
    after = FAILING.replace("services:", "")
    folder = a_folder(tmp_path, services_yaml=f"{YAML}{after}")
    assert knows_the_scheme(folder) is True
    seen = levels(folder)
    assert "services" not in seen
    assert seen["services.yaml"] == "error"


def test_a_class_of_somebody_else_is_looked_for_and_not_run(tmp_path: Path) -> None:
    """S1.51: as a file beside the YAML file, or nowhere."""
    other = YAML.replace("vecall.adk.VecallMemoryService", "mine.Memory")
    folder = a_folder(tmp_path, services_yaml=other)
    assert "no such module" in message(folder, "services.yaml")
    (folder / "mine.py").write_text("raise SystemExit\n")
    assert levels(folder)["services.yaml"] == "ok"


@pytest.mark.parametrize(
    ("uri", "level", "told"),
    [
        (None, "warning", "a memory that ends with it"),
        ("sqlite:///memory.db", "warning", "another memory"),
        ("vecall://:memory:", "warning", "nothing outlives"),
        ("vecall://no/such/folder/memory.db", "error", "no such folder"),
        ("vecall://./memory.db?read_only=true", "error", "read_only"),
        ("vecall://./memory.db?colour=red", "error", "options are"),
        ("vecall://./memory.db?top_k=0", "error", "top_k"),
        ("vecall://./memory.db?trigger=sometimes", "error", "trigger"),
        ("vecall://", "error", "expected vecall://"),
    ],
)
def test_a_uri_that_will_not_do_is_found(
    tmp_path: Path, uri: str | None, level: str, told: str
) -> None:
    """S1.51, S1.52: before the server is started."""
    folder = a_folder(tmp_path, services_yaml=YAML)
    before = files_in(folder)
    assert levels(folder, uri)["uri"] == level
    assert told in message(folder, "uri", uri)
    assert files_in(folder) == before


def test_without_a_uri_a_missing_registration_is_a_warning(tmp_path: Path) -> None:
    """S1.51: an agent may have a Runner of its own, with its memory in code."""
    folder = a_folder(tmp_path)
    assert levels(folder, None)["services"] == "warning"
    assert levels(folder, None)["hotel"] == "ok"
    assert "needs a VecallMemoryService" in message(folder, "hotel", None)
    made = "from vecall.adk import VecallMemoryService, load_memory\n"
    (folder / "hotel" / "agent.py").write_text(made)
    assert "needs" not in message(folder, "hotel", None)


def test_a_session_that_nothing_ends_is_a_warning(tmp_path: Path) -> None:
    """S4.17: with that trigger the plugin alone remembers nothing."""
    folder = a_folder(tmp_path, services_yaml=YAML)
    waiting = f"{URI}?trigger=session_end"
    assert levels(folder, waiting)["hotel"] == "warning"
    assert "end_session" in message(folder, "hotel", waiting)
    for uri in (URI, f"{URI}?trigger=message_count:6", "vecall://?", None):
        assert "end_session" not in message(folder, "hotel", uri)
    ends = "async def leave(memory, session):\n    await memory.end_session(session)\n"
    (folder / "hotel" / "agent.py").write_text(AGENT + ends)
    assert "end_session" not in message(folder, "hotel", waiting)


@pytest.mark.parametrize(
    ("agent", "level", "told"),
    [
        ("x = 1\n", "note", "uses no memory"),
        ("from google.adk.tools import load_memory\n", "note", "nothing here writes"),
        (
            "from google.adk.tools import preload_memory\n"
            "async def keep(context):\n    await context.add_session_to_memory()\n",
            "ok",
            "uses preload_memory, add_session_to_memory",
        ),
        (
            "from google.adk.tools import AgentTool, preload_memory\n",
            "note",
            "LoadMemoryTool(memory=service)",
        ),
        ("from vecall.adk import remember\n", "ok", "uses remember"),
        ("def broken(:\n", "note", "agent.py cannot be read"),
    ],
)
def test_what_an_agent_does_with_the_memory_is_told(
    tmp_path: Path, agent: str, level: str, told: str
) -> None:
    """S1.51: tools that recall, and whether anything writes what they could find."""
    folder = a_folder(tmp_path, agent, services_yaml=YAML)
    assert levels(folder)["hotel"] == level
    assert told in message(folder, "hotel")


def test_an_agent_in_yaml_and_a_folder_of_one_agent(tmp_path: Path) -> None:
    """S1.51: in google-adk relative paths start in the folder above such an agent."""
    folder = a_folder(tmp_path, services_yaml=YAML)
    alone = folder / "hotel"
    (alone / "agent.py").unlink()
    (alone / "services.yaml").write_text(YAML)
    (alone / "root_agent.yaml").write_text("name: h\ntools:\n  - name: load_memory\n")
    assert "uses load_memory" in message(alone, "hotel")
    assert message(alone, "uri").startswith(f"{folder.resolve()}/memory.db")
    (alone / "root_agent.yaml").write_text("tools: [\n")
    assert levels(alone)["hotel"] == "note"


def test_the_command_tells_it_and_returns_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.51: as JSON too, and never together with what changes a file."""
    folder = a_folder(tmp_path, services_yaml=YAML)
    asked = ["doctor", "--agents", str(folder), "--memory-service-uri", URI]
    assert main(asked) == 0
    assert "hotel        ok  uses load_memory" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["damaged"] is False
    assert {each["about"] for each in told["findings"]} >= {"services.yaml", "uri"}
    assert main([*asked, "--repair"]) == 1
    assert main(["doctor", "--agents", str(folder / "none")]) == 1
    assert "no such folder" in capsys.readouterr().err
    with pytest.raises(vecall.ConfigError):
        examine_agents(folder / "services.yaml")


def test_without_google_adk_the_command_names_the_extra() -> None:
    """S1.11, S1.51."""
    code = (
        "import sys; sys.modules['google.adk'] = None\n"
        "from vecall.cli.main import main\n"
        "sys.exit(main(['doctor', '--agents', '.']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert 'pip install "vecall[adk]"' in done.stderr


def test_names_are_spelled_in_full(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "import a.b\nimport c as d\nfrom e.f import g as h, i\nfrom . import j\n"
        "a.b.k()\nd.m.n\nh.o\np().q\n"
    )
    assert names_used_in_file(path) == {
        *("c", "e.f.g", "e.f.i", "a.b.k", "a.b", "c.m", "c.m.n", "e.f.g.o", "q"),
    }


def test_a_class_whose_name_begins_like_vecall_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "vecall_evil.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
        "class Thing: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "services.yaml").write_text(
        "services:\n  - scheme: vecall\n    type: memory\n"
        "    class: vecall_evil.Thing\n"
    )
    examine_agents(tmp_path, "vecall:///memory.db")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("uri", "code"), [("vecal://memory.db", 1), ("sqlite://x.db", 0)]
)
def test_a_scheme_that_google_adk_refuses_is_an_error(tmp_path, uri, code, capsys):
    """google-adk does not start with a URI that it does not know."""
    arguments = ["doctor", "--agents", str(tmp_path), "--memory-service-uri", uri]
    assert main(arguments) == code
    capsys.readouterr()

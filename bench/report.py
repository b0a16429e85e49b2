"""Reruns the published figures on this machine, and writes one report of them.

    python -m bench.report FOLDER [--locomo locomo10.json] [--all] [--only NAME ...]

It runs the commands of README's table of figures, beside the rivals that they name;
with `--all` every command of bench/README.md. Each is a process of its own. FOLDER gets
report.md, report.json (the machine, and of each command its output, the tables in it,
exit status and times) and results.json with the pictures of the engine's comparison.
Install the rivals with `pip install ".[bench]"`. A command that needs a file or a
package that is not here is listed with the reason; the exit status is 1 if one failed.
"""

from __future__ import annotations

import json
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.common import arguments, measure, tables

ROOT = Path(__file__).resolve().parent.parent
COMPARISON = "bench.vector.compare"
_ROW = re.compile(r"^\| (.+?) \|.*`python -m (bench\.[^`]+)`", re.M)
_NO_FIGURES = ("bench.common", "bench.report")
_PATIENCE = 6 * 3600.0  # seconds


def listed(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the question, or the figure, and the command of each row of a page."""
    known = set()
    for what, command in _ROW.findall(page.read_text("utf-8")):
        if command not in known and not command.startswith(_NO_FIGURES):
            known.add(command)
            yield what, command


def chosen(
    pages: Sequence[Path], only: Sequence[str], locomo: Path | None, folder: Path
) -> Iterator[tuple[str, list[str] | str]]:
    """Yield what each command is about, and its words or why it does not run."""
    for page in pages:
        for what, command in listed(page):
            if only and not any(name in command for name in only):
                continue
            words = shlex.split(command)
            if "OLD" in words:
                yield what, f"{words[0]}: needs two builds"
                continue
            words = ["LOCOMO" if word == "locomo10.json" else word for word in words]
            if "LOCOMO" in words and locomo is None:
                yield what, f"{words[0]}: needs --locomo"
                continue
            words = [str(locomo) if word == "LOCOMO" else word for word in words]
            if words[0] == COMPARISON:
                words = [COMPARISON, "--out", str(folder / "results.json")]
            yield what, words


def tables_in(output: str) -> list[list[list[str]]]:
    """The Markdown tables of an output: rows of cells, the first row the head."""
    found: list[list[list[str]]] = []
    before = ""
    for line in output.splitlines():
        if re.fullmatch(r"(\|:?-+:?)+\|", line):
            found.append([_cells(before)])
        elif line.startswith("|") and before.startswith("|"):
            found[-1:] = [[*each, _cells(line)] for each in found[-1:]]
        before = line
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def run(words: Sequence[str]) -> dict[str, Any]:
    """Run one command; return its output, exit status and times."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {
        "command": f"python -m {shlex.join(words)}",
        "status": done.returncode,
        "seconds": round(time.monotonic() - begun, 1),
        "cpu seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1
        ),
        "output": done.stdout,
        "tables": tables_in(done.stdout),
    }
    if done.returncode:
        found["error"] = done.stderr[-2_000:]
    return found


def document(machine: dict[str, Any], found: Sequence[dict[str, Any]]) -> str:
    """Return the report as Markdown."""
    lines = ["# Report", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    rows = [(each["what"], each.get("status", "-"), _took(each)) for each in found]
    lines += ["", tables.table(("what", "status", "seconds"), rows).rstrip()]
    for each in found:
        lines += ["", f"## {each['what']}", ""]
        if "why" in each:
            lines.append(f"Not run: {each['why']}.")
            continue
        lines.append(
            f"`{each['command']}`: status {each['status']}, {each['seconds']} s, "
            f"{each['cpu seconds']} s of CPU"
        )
        shown = each.get("error") or each["output"]
        lines += ["", "```text", shown.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _took(each: dict[str, Any]) -> str:
    return f"not run: {each['why']}" if "why" in each else f"{each['seconds']}"


def main() -> int:
    """Run the commands; write the report after each, so that none is lost."""
    parser = arguments.parser(__doc__)
    parser.add_argument("folder", type=Path, help="where the report goes")
    parser.add_argument("--locomo", type=Path, help="the file of LoCoMo")
    parser.add_argument("--all", action="store_true", help="all of bench/README.md")
    parser.add_argument(
        "--only", nargs="+", default=[], help="commands with such a name, of all"
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    folder = given.folder.resolve()
    locomo = None if given.locomo is None else given.locomo.resolve()
    whole = given.all or given.only
    pages = [ROOT / "bench/README.md"] if whole else [ROOT / "README.md"]
    machine, found = measure.machine(), []
    for what, words in chosen(pages, given.only, locomo, folder):
        if isinstance(words, str):
            found.append({"what": what, "why": words})
        else:
            print(what, flush=True)
            found.append({"what": what, **run(words)})
            print(f"    {found[-1]['seconds']} s, status {found[-1]['status']}")
        report = json.dumps({"machine": machine, "found": found}, indent=2)
        (folder / "report.json").write_text(report, "utf-8")
        (folder / "report.md").write_text(document(machine, found), "utf-8")
    results = folder / "results.json"
    if results.exists():
        run(["bench.common.plot", str(results), str(folder / "performance.svg")])
    return any(each.get("status") for each in found)


if __name__ == "__main__":
    sys.exit(main())

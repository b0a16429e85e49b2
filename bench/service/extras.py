"""What does each extra add: packages, size, and time and CPU of the import?

    python -m bench.service.extras [--extras langgraph strands] [--runs 5]

Each extra is installed into a new environment, which needs a package index. "packages"
counts what the extra adds to vecall alone. The import times are CPU seconds of the
fastest cold process: of the framework's own module, and of vecall's module, which
imports both.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.common import arguments

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "mcp": ("mcp", "vecall.mcp"),
    "langgraph": ("langgraph.store.base", "vecall.langgraph"),
    "langchain": ("langchain_core.vectorstores", "vecall.langchain"),
    "openai-agents": ("agents", "vecall.openai_agents"),
    "pydantic-ai": ("pydantic_ai", "vecall.pydantic_ai"),
    "crewai": ("crewai.memory.storage.backend", "vecall.crewai"),
    "llama-index": ("llama_index.core.schema", "vecall.llama_index"),
    "haystack": ("haystack", "vecall.haystack"),
    "strands": ("strands.memory", "vecall.strands"),
    "autogen": ("autogen_core.memory", "vecall.autogen"),
    "anthropic": ("anthropic", "vecall.anthropic"),
    "server": ("starlette", "vecall.server"),
}
"""Of each extra a module of the framework, and vecall's."""


def packages(python: Path) -> dict[str, str]:
    """Return the installed packages of an environment."""
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"],
        capture_output=True,
        check=True,
    )
    return {each["name"]: each["version"] for each in json.loads(listed.stdout)}


def cpu_s(python: Path, module: str, runs: int) -> float | None:
    """Return the least CPU time of an import; None if it fails."""
    best: float | None = None
    for _ in range(runs + 1):  # the first one writes the bytecode
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [python, "-c", f"import {module}"], capture_output=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            return None
        took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = took if best is None else min(best, took)
    return best


def main() -> None:
    """Print a line for each extra."""
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "--extras", nargs="+", choices=MODULES, default=list(MODULES), metavar="EXTRA"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--source", default=str(ROOT), help="a wheel or a folder")
    options = parser.parse_args()
    print("extra           packages   MiB   framework      vecall's module")
    with tempfile.TemporaryDirectory() as folder:
        for extra in ["", *options.extras]:
            home = Path(folder) / (extra or "base")
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            python = home / "bin/python"
            wanted = f"{options.source}[{extra}]" if extra else options.source
            command = [python, "-m", "pip", "install", "-q", wanted]
            subprocess.run(command, check=True)
            size = sum(f.stat().st_size for f in home.rglob("*") if f.is_file())
            installed = packages(python)
            if not extra:
                base, least = installed, size
            framework, own = MODULES.get(extra, ("numpy", "vecall"))
            cells = [cpu_s(python, module, options.runs) for module in (framework, own)]
            shown = ["-" if cell is None else f"{cell:.2f} s CPU" for cell in cells]
            added, more = len(installed) - len(base), (size - least) / 2**20
            print(f"{extra or 'none':15}{added:9}{more:6.0f}   {shown[0]:15}{shown[1]}")


if __name__ == "__main__":
    main()

"""`vecall hook`, `vecall install` and `vecall uninstall`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from vecall.cli import options as cli
from vecall.cli.console import naming, one_line
from vecall.coding_agents.hook_command import main as run_hook
from vecall.coding_agents.install import (
    AGENTS,
    Agent,
    install,
    installed_text,
    uninstall,
    vecall_command,
)
from vecall.coding_agents.options import add_options, as_arguments
from vecall.errors import ConfigError

command = cli.Commands()


# main.py runs it before this is read, unless another option is before it.
@command("hook: recall or remember for a coding agent\n\narguments ...")
def _run_given_hook(options: argparse.Namespace) -> int:
    return run_hook(options.arguments)


@command(
    f"""install: add memory to a coding agent
    Add hooks to the settings of a coding agent: it recalls and remembers without a tool
    call. An agent whose hooks cannot add to a prompt gets the server vecall mcp.

    agent {{{",".join(AGENTS)}}}  the coding agent
    --settings FILE path  the agent's settings (default: those of the user)
    --print  print the hooks, and change nothing
    --uninstall  the same as vecall uninstall""",
    add_options,
)
def _run_install(options: argparse.Namespace) -> int:
    if options.uninstall:
        return _run_uninstall(options)
    agent = AGENTS[options.agent]
    arguments = as_arguments(options, of_server=not agent.events)
    hooks = agent.hooks(vecall_command(), arguments)
    if options.print:
        print(installed_text(agent, hooks), end="")
        return 0
    changed = _change(options, partial(install, hooks=hooks), "added")
    if changed and agent.name == "codex":
        print("Codex asks you to trust new hooks: type /hooks in a session.")
    return 0


@command(f"""uninstall: take memory out of a coding agent; the memories stay

    agent {{{",".join(AGENTS)}}}  the coding agent
    --settings FILE path  the agent's settings (default: those of the user)""")
def _run_uninstall(options: argparse.Namespace) -> int:
    _change(options, uninstall, "removed")
    return 0


def _change(
    options: argparse.Namespace, change: Callable[[Agent, Path], bool], done: str
) -> bool:
    """Change the settings of an agent; say and return whether that was needed."""
    agent = AGENTS[options.agent]
    path = options.settings or agent.settings()
    with naming(path):
        try:
            changed = change(agent, path)
        except OSError as error:
            msg = f"path: {error.strerror}; the settings were not changed"
            raise ConfigError(msg) from error
    what = f"hooks were {done}" if agent.events else f"the server was {done}"
    print(f"{one_line(path)}: {what if changed else 'no change'}")
    return changed

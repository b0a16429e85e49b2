"""The command `vecall`."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress

from vecall import __version__

_HOOK = "hook"
_SERVERS = ("serve", "mcp")  # which end by themselves
_PATIENCE_S = 0.8  # of Ctrl-C: whatever is not finished by then is not waited for

EXAMPLES = {
    "demo": "--path memory.db",
    "import": "chats.json --app hotel --user alice",
    "ls": "hotel alice",
    "add": '"Prefers a quiet room" --user alice',
    "show": "ID",
    "history": "ID --user alice",
    "edit": 'ID "Prefers a quiet room" --user alice',
    "rm": "ID --user alice",
    "restore": "ID --user alice",
    "forget": '"my old address" --user alice',
    "search": '"which room" --user alice --top-k 3',
    "why": '"which room" ID --user alice',
    "stats": "--path memory.db --json",
    "doctor": "--path memory.db",
    "backup": "copy.db",
    "restore-backup": "copy.db memory.db --replace",
    "export": "memories.jsonl --app hotel",
    "reembed": "--embedder local",
    "purge": "--path memory.db",
    "copy": "memory.db postgresql://db/memory --dry-run",
    "pg": "doctor postgresql://db/memory",
    "pg init": "postgresql://admin@db/memory",
    "pg migrate": "postgresql://admin@db/memory",
    "pg doctor": "postgresql://db/memory",
    "consolidate": "--user alice --similarity 0.95",
    "erase": "--user alice",
    "ui": "memory.db --write",
    "eval": "demo",
    "serve": "--path memory.db --read-only",
    "token": "list",
    "token create": "--app hotel --user alice --expires 30d",
    "token list": "--json",
    "token revoke": "ID",
    "mcp": "--config cursor",
    "hook": "--help",
    "install": "claude-code",
    "uninstall": "claude-code",
}
"""What is shown as an example of each command, in the order of the help."""


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    # Here, since a hook does not need them and must start fast.
    from vecall.cli import eval_command as evaluate
    from vecall.cli import file_commands as caring
    from vecall.cli import memory_commands as memories
    from vecall.cli import search_commands as searching
    from vecall.cli import serve_commands as serving
    from vecall.cli.options import add_commands

    top = argparse.ArgumentParser(
        prog="vecall", description="Long-term memory for AI agents, in one file."
    )
    top.add_argument("--version", action="version", version=__version__)
    top.add_argument(
        "--debug",
        action="store_true",
        help="where a command fails, show the cause, as VECALL_DEBUG=1 does",
    )
    top.set_defaults(run=searching.run_overview)
    modules = (memories, searching, caring, evaluate, serving)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    table = {name: each for made in modules for name, each in made.command.items()}
    add_commands(commands, table, EXAMPLES)
    _add_command_examples(top)
    return top


def _add_command_examples(command: argparse.ArgumentParser) -> None:
    """Show an example of each command at the end of its help."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in set(action.choices.values()):  # also by their aliases
                _add_command_examples(each)
    name = command.prog.partition(" ")[2]
    shown = f"example: {command.prog} {EXAMPLES.get(name, 'ls')}"
    command.epilog = "\n\n".join(filter(None, [shown, command.epilog]))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"vecall: {message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after printing an error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [_HOOK]:
        return _run_hook(given[1:], own_process=arguments is None)
    from vecall.cli import console as ui
    from vecall.system import prepare_terminal
    from vecall.telemetry import RawTurnsWarning

    if arguments is None:  # until something is begun, Ctrl-C ends it without a word
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    prepare_terminal()
    with ui.clean_output():
        options = command_parser().parse_args(given)
        if arguments is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if options.command not in _SERVERS:
                signal.signal(signal.SIGINT, _interrupt_command)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("default", UserWarning)  # a note, never an error
            warnings.simplefilter("ignore", RawTurnsWarning)
            return _run_command(options)


def _tell_interrupt(interrupt: KeyboardInterrupt) -> None:
    told = map(str, interrupt.args)
    print(": ".join(["\nvecall: interrupted", *told]), file=sys.stderr, flush=True)


def _interrupt_command(*_: object) -> None:
    """Raise KeyboardInterrupt; end the process if it still runs some seconds later."""
    interrupt = KeyboardInterrupt()

    def end() -> None:
        _tell_interrupt(interrupt)
        os._exit(130)

    timer = threading.Timer(_PATIENCE_S, end)
    timer.daemon = True
    timer.start()
    raise interrupt


def _run_hook(arguments: list[str], *, own_process: bool) -> int:
    if own_process:  # a collection during the imports visits all that they made
        gc.disable()
    from vecall.coding_agents.hook_command import main as hook

    if own_process:
        gc.freeze()
        gc.enable()
    status = hook(arguments)
    if own_process:
        sys.stdout.flush()
        os._exit(status)  # nothing is open; Python would take 20 ms to clean up
    return status


def _run_command(options: argparse.Namespace) -> int:
    from vecall.cli import console as ui
    from vecall.errors import VecallError

    run: Callable[[argparse.Namespace], int] = options.run
    try:
        status = run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does.
        sys.stderr.close()
        return 1
    except (VecallError, ImportError, OSError) as error:
        ui.print_error(error, debug=options.debug)
        if type(error) is OSError:  # standard output may be on a full disk
            with suppress(OSError):
                sys.stdout.close()
        return 1
    except KeyboardInterrupt as interrupt:
        _tell_interrupt(interrupt)
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())

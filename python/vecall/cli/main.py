"""The command `vecall`."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from vecall import __version__
from vecall.cli.console import clean_output, report
from vecall.errors import VecallError
from vecall.system import prepare_terminal
from vecall.telemetry import RawTurnsWarning

_HOOK = "hook"


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    # Here, since a hook does not need them and must start fast.
    from vecall.cli import coding_agent_commands as agents
    from vecall.cli import demo_command as demo
    from vecall.cli import eval_command as evaluate
    from vecall.cli import file_commands as caring
    from vecall.cli import import_command as importing
    from vecall.cli import search_commands as searching
    from vecall.cli import serve_commands as serving
    from vecall.cli import ui_command as looking
    from vecall.cli import user_commands as users

    top = argparse.ArgumentParser(
        prog="vecall", description="Long-term memory for AI agents, in one file."
    )
    top.add_argument("--version", action="version", version=__version__)
    top.add_argument(
        "--debug",
        action="store_true",
        help="where a command fails, show the cause, as VECALL_DEBUG=1 does",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (
        demo,
        importing,
        searching,
        caring,
        users,
        looking,
        evaluate,
        serving,
        agents,
    ):
        module.add_commands(commands)
    return top


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"vecall: {message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after printing an error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [_HOOK]:
        return _run_hook(given[1:], own_process=arguments is None)
    prepare_terminal()
    with clean_output():
        options = parser().parse_args(given)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            warnings.simplefilter("default", UserWarning)  # a note, never an error
            warnings.simplefilter("ignore", RawTurnsWarning)
            return _run(options)


def _run_hook(arguments: list[str], *, own_process: bool) -> int:
    from vecall.coding_agents.hook import main as hook

    status = hook(arguments)
    if own_process:
        sys.stdout.flush()
        os._exit(status)  # nothing is open; Python would take 20 ms to clean up
    return status


def _run(options: argparse.Namespace) -> int:
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (VecallError, ImportError, PermissionError) as error:
        report(error, debug=options.debug)
        return 1
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

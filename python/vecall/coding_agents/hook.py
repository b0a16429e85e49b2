"""`vecall hook`: recalls and remembers for a coding agent, and never disturbs it.

The exit status is always 0, since 2 blocks a prompt. Standard output is one JSON object
or nothing. A failure is a line in `vecall.coding_agents.log`. At its deadline, see
`vecall.coding_agents.deadline`, the process ends with nothing printed.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from vecall.coding_agents import answers, log
from vecall.coding_agents.deadline import Deadline
from vecall.coding_agents.options import Options, add_options, options_of
from vecall.coding_agents.payload import Payload, PayloadError, read_payload
from vecall.coding_agents.project import project_user
from vecall.coding_agents.recall import Owner, profile, recalled
from vecall.coding_agents.retain import retain
from vecall.coding_agents.transcript import (
    TranscriptError,
    find_transcript,
    read_turns,
)
from vecall.embedders.resolve import EmbedderLike
from vecall.service.memory_service import MemoryService

VERBS = {
    "recall": "print memories that are relevant to a prompt",
    "retain": "remember the turns of a session's transcript",
    "start": "print preferences and decisions at the beginning of a session",
}


class _UsageError(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


def main(arguments: Sequence[str]) -> int:
    """Run one hook; return 0.

    Args:
        arguments: The command line after `vecall hook`.
    """
    verb = arguments[0] if arguments and arguments[0] in VERBS else "hook"
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
        _run(arguments, verb)
    except SystemExit:  # of --help
        pass
    except _UsageError as error:
        log.write_line(verb, "wrong arguments: see vecall hook --help")
        with suppress(OSError, AttributeError, ValueError):
            sys.stderr.write(f"vecall hook: {error}\n")
    except (PayloadError, TranscriptError) as error:
        log.write_line(verb, str(error))
    except BaseException as error:
        log.write_line(verb, log.reason(error))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments after `vecall hook`."""
    top = _Parser(
        prog="vecall hook",
        description="A hook of a coding agent. Reads the agent's JSON from standard "
        "input. Always exits with 0.",
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, about in VERBS.items():
        add_options(verbs.add_parser(verb, help=about))
    return top


def _run(arguments: Sequence[str], verb: str) -> None:
    parsed = parser().parse_args(arguments)
    options = options_of(parsed)
    end = Deadline(parsed.verb)
    warnings.simplefilter("ignore")
    logging.getLogger("vecall").addHandler(log.LogHandler(verb))
    logging.getLogger("vecall").propagate = False
    run = {"recall": _recall, "retain": _retain, "start": _start}[parsed.verb]
    payload = read_payload(sys.stdin.fileno())
    text = run(payload, options, end.left)
    answer = answers.answer(payload.event, text)
    end.print_now()
    _print(answer)
    end.cancel()


def _recall(payload: Payload, options: Options, _: Callable[[], float]) -> str:
    if not payload.prompt.strip() or not options.path.exists():
        return ""
    with _opened(options, read_only=True) as memory:
        return recalled(
            memory,
            _owner(payload, options),
            payload.prompt,
            payload.session_id,
            max_tokens=options.max_tokens,
            min_confidence=options.min_confidence,
        )


def _start(payload: Payload, options: Options, left: Callable[[], float]) -> str:
    if not options.path.exists():
        return ""
    with _opened(options, read_only=True) as memory:
        owner = _owner(payload, options)
        return profile(memory, owner, max_tokens=options.max_tokens, left=left)


def _retain(payload: Payload, options: Options, left: Callable[[], float]) -> str:
    path = find_transcript(payload.transcript, payload.session_id)
    if path is None or payload.session_id is None:
        msg = "the input names no session with a transcript"
        raise PayloadError(msg)
    turns, unread = read_turns(path, left)
    if unread:
        log.write_line("retain", f"{unread} bytes of the transcript were not read")
    if not turns:
        return ""
    options.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(options, read_only=False) as memory:
        owner = _owner(payload, options)
        refused, late = retain(memory, owner, payload.session_id, turns, left)
    if refused:
        log.write_line("retain", f"{refused} turns were refused")
    if late:
        log.write_line("retain", f"{late} turns are left for the next hook")
    return ""


@contextmanager
def _opened(options: Options, *, read_only: bool) -> Iterator[MemoryService]:
    embedder: EmbedderLike = None
    if options.embedder != "none":
        embedder = options.embedder
    with MemoryService(
        Path(options.path), embedder=embedder, read_only=read_only
    ) as memory:
        yield memory


def _owner(payload: Payload, options: Options) -> Owner:
    user = options.user or project_user(payload.folder)
    return Owner(options.app, user)


def _print(text: str) -> None:
    data = memoryview(text.encode("ascii"))
    while data:
        data = data[os.write(1, data) :]

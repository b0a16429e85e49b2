"""`vecall hook`: recalls and remembers for a coding agent, and never disturbs it.

The exit status is always 0, since 2 blocks a prompt. Standard output is one JSON object
or nothing. A failure is a line in the log. At its deadline the process ends with
nothing printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from vecall._core import ProcessEnd
from vecall.clock import to_seconds
from vecall.coding_agents import transcript as transcripts
from vecall.coding_agents.options import (
    MARK,
    Options,
    add_agent_options,
    agent_options_of,
    user_of_project,
)
from vecall.coding_agents.transcript import PayloadError
from vecall.errors import InvalidArgumentError, VecallError
from vecall.limits import Owner
from vecall.prompts.render import render, token_counter
from vecall.service.memory_service import MemoryService
from vecall.system import open_private, process_age, replace_file, state_folder
from vecall.tools.preload import PreloadMemory
from vecall.types import UNSET, Event, Filter, MemoryEntry

MOST_INPUT_BYTES = 16 * 1024 * 1024
_SESSION = ("session_id", "conversation_id", "sessionId")
_COPILOT = "copilot-cli"


@dataclass(frozen=True, slots=True)
class Payload:
    """The input of a hook, the same for all agents."""

    event: str  # the agent's name of it, such as "UserPromptSubmit"
    session_id: str | None
    folder: str  # in which the agent works
    prompt: str  # "" for other events
    transcript: str | None  # its path
    turns: list[transcripts.Turn] = field(default_factory=list)  # of the input itself
    sent: str | None = None  # the prompt as the model gets it, if the hook replaces it


def read_hook_payload(file: int) -> Payload:
    """Read the input of a hook from a file descriptor, or raise PayloadError."""
    data = bytearray()
    while chunk := os.read(file, 1 << 16):
        data += chunk
        if len(data) > MOST_INPUT_BYTES:
            raise PayloadError(f"the input has more than {MOST_INPUT_BYTES} bytes")
    try:
        fields = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise PayloadError("the input is not JSON") from None
    if not isinstance(fields, dict):
        raise PayloadError("the input is not a JSON object")
    event = _text_in(fields, "hook_event_name")
    if event is None and _text_in(fields, "sessionId"):
        event = _COPILOT
    if event is None:
        raise PayloadError("the input has no hook_event_name")
    return Payload(
        event=event,
        session_id=next(
            filter(None, (_text_in(fields, name) for name in _SESSION)), None
        ),
        folder=_payload_folder(fields),
        prompt=transcripts.prompt_of_payload(fields),
        transcript=_text_in(fields, "transcript_path")
        or _text_in(fields, "transcriptPath"),
        turns=transcripts.turns_of_payload(fields),
        sent=_text_in(fields, "transformedPrompt"),
    )


def _text_in(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        return None
    # A lone surrogate is valid JSON, but no text.
    return value.encode("utf-8", "replace").decode("utf-8")


def _payload_folder(fields: Mapping[str, Any]) -> str:
    roots = fields.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots else None
    for each in (_text_in(fields, "cwd"), first, os.environ.get("CURSOR_PROJECT_DIR")):
        if isinstance(each, str) and each:
            return each
    return os.getcwd()  # noqa: PTH109 - a text is needed


MOST_CHARACTERS = 9_900
"""Claude Code and Cursor put more than 10,000 characters into a file instead."""

# Events of Claude Code and Codex, and of Gemini CLI.
_SPECIFIC = ("UserPromptSubmit", "SessionStart", "BeforeAgent")


def hook_answer(payload: Payload, block: str) -> str:
    """Return the output that adds a block to the context; "" adds nothing."""
    event = payload.event
    answer: dict[str, object] = {}
    if event in _SPECIFIC:
        specific = {"hookEventName": event, "additionalContext": block}
        answer = {"suppressOutput": True, "hookSpecificOutput": specific}
    elif event == "beforeSubmitPrompt":
        answer = {"continue": True, "additional_context": block}
    elif event in ("sessionStart", "chat.message"):
        answer = {"additional_context": block}
    elif event == _COPILOT and payload.sent is not None:
        answer = {"modifiedTransformedPrompt": f"{payload.sent}\n\n{block}"}
    elif event == _COPILOT:
        answer = {"additionalContext": block}
    return json.dumps(answer) if block and answer else ""


# The log of hooks: one line for each failure, without any text of the user.


MOST_LOG_BYTES = 1_000_000
"""A longer log is renamed to `hooks.log.1` and begun again."""


def hook_log_path() -> Path:
    """Return the path of the log: in XDG_STATE_HOME, else in ~/.local/state."""
    return Path(state_folder()).expanduser() / "vecall" / "hooks.log"


def write_hook_log_line(verb: str, what: str) -> None:
    """Append a line with the time to the log; do nothing if that is impossible."""
    try:
        path = hook_log_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_LOG_BYTES:
            replace_file(path, path.with_name("hooks.log.1"))
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{moment} {verb}: {' '.join(what.split())}\n".encode()
        file = open_private(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line)
        finally:
            os.close(file)
    except (OSError, ValueError, RuntimeError):
        return


def hook_error_reason(error: BaseException) -> str:
    """Return the class of an error, and vecall's own message: no text of a user."""
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, VecallError) else name


class LogHandler(logging.Handler):
    """Appends warnings of vecall's logger, which have no text of a user, to the log."""

    def __init__(self, verb: str) -> None:
        """Use the verb of the hook."""
        super().__init__(logging.WARNING)
        self._verb = verb

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record."""
        write_hook_log_line(self._verb, record.getMessage())


SECONDS = {"recall": 2.0, "start": 2.0, "retain": 8.0}
"""The most that the hook of each verb takes, from the start of its process to its end.

An agent waits for the first two, before a prompt. `vecall install` gives the third ten
seconds, and Claude Code does not wait for it.
"""

_MARGIN = 0.1
_PRINTING_S = 0.05


class Deadline:
    """Ends the process with status 0 after `SECONDS`, unless it is cancelled.

    The time counts from the start of the process. The end does not wait for the
    interpreter, and has a line in the log. A write that is interrupted is rolled back
    by the next process that opens the file.
    """

    def __init__(self, verb: str) -> None:
        """Start to wait."""
        seconds = SECONDS[verb] - _MARGIN - process_age()
        self._at = time.monotonic() + seconds
        line = f"{verb}: ended at its deadline"
        try:
            log = hook_log_path()
        except RuntimeError:  # no home folder
            log = Path()
        self._end = ProcessEnd(seconds, log, line)

    def seconds_left(self) -> float:
        """Return the seconds until the end; negative after it."""
        return self._at - time.monotonic()

    def allow_printing(self) -> None:
        """Extend the deadline, so that the whole answer can be printed."""
        self._end.put_off(_PRINTING_S)

    def cancel_deadline(self) -> None:
        """Let the process end by itself."""
        self._end.cancel()


PROFILE_KINDS = ("preference", "decision")
"""The kinds of memories in a profile, in this order."""

_MOST_RECALLED = 8
_MOST_OF_A_PROFILE = 20
_PAGE = 1_000


def profile_for_hook(
    memory: MemoryService, owner: Owner, *, max_tokens: int, left: Callable[[], float]
) -> str:
    """Return a block of the newest preferences and decisions, read in time."""
    found: list[MemoryEntry] = []
    cursor: str | None = None
    user = memory.sync.user(**owner)
    while left() > 0.5:
        page = user.list(cursor=cursor, limit=_PAGE, filter=Filter(kind=PROFILE_KINDS))
        found += page
        if len(page) < _PAGE:
            break
        cursor = page[-1].id
    found.reverse()  # newest first
    found.sort(key=lambda each: PROFILE_KINDS.index(str(each.kind)))
    shown, count = found[:_MOST_OF_A_PROFILE], _block_token_counter(max_tokens)
    while shown:
        block = render(shown, "secure")
        if count(block) <= max_tokens:
            return block
        shown.pop()
    return ""


def _block_token_counter(max_tokens: int) -> Callable[[str], int]:
    """Return a count by which a block of `max_tokens` also fits an agent's limit."""
    estimate = token_counter(None)

    def count(text: str) -> int:
        share = math.ceil(len(text) * max_tokens / MOST_CHARACTERS)
        return max(estimate(text), share)

    return count


_AT_ONCE = 256


def retain_turns(
    memory: MemoryService,
    owner: Owner,
    session_id: str,
    turns: Sequence[transcripts.Turn],
    left: Callable[[], float],
) -> tuple[int, int]:
    """Upsert turns, 256 at once; return how many were refused, and are left."""
    refused = 0
    for at in range(0, len(turns), _AT_ONCE):
        if left() < 0.2:
            return refused, len(turns) - at
        chunk = [_event_of_turn(turn) for turn in turns[at : at + _AT_ONCE]]
        try:
            added = memory.sync.add_events_to_memory(
                **owner, session_id=session_id, events=chunk
            )
        except InvalidArgumentError:
            refused += len(chunk)
        else:
            refused += sum(each.reason == "invalid" for each in added.left_out)
    return refused, 0


def _event_of_turn(turn: transcripts.Turn) -> Event:
    seconds = None
    with suppress(ValueError):  # not a time
        if turn.timestamp is not None:
            seconds = to_seconds(turn.timestamp, "timestamp")
    return Event(
        turn.text,
        author=turn.author,
        timestamp=seconds,
        id=turn.id,
        custom_metadata=dict(turn.metadata),
    )


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
    """Run one hook, of the command line after `vecall hook`; return 0."""
    if arguments[-3:] == MARK.split():  # cmd of Windows knows no such comment
        arguments = arguments[:-3]
    verb = arguments[0] if arguments and arguments[0] in VERBS else "hook"
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
        _run_hook_verb(arguments, verb)
    except SystemExit:  # of --help
        pass
    except _UsageError as error:
        write_hook_log_line(verb, "wrong arguments: see vecall hook --help")
        with suppress(OSError, AttributeError, ValueError):
            sys.stderr.write(f"vecall hook: {error}\n")
    except PayloadError as error:
        write_hook_log_line(verb, str(error))
    except BaseException as error:
        write_hook_log_line(verb, hook_error_reason(error))
    return 0


def hook_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments after `vecall hook`."""
    top = _Parser(
        prog="vecall hook",
        description="A hook of a coding agent. Reads the agent's JSON from standard "
        "input. Always exits with 0.",
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, about in VERBS.items():
        add_agent_options(verbs.add_parser(verb, help=about))
    return top


def _run_hook_verb(arguments: Sequence[str], verb: str) -> None:
    parsed = hook_parser().parse_args(arguments)
    options = agent_options_of(parsed)
    end = Deadline(parsed.verb)
    warnings.simplefilter("ignore")
    logging.getLogger("vecall").addHandler(LogHandler(verb))
    logging.getLogger("vecall").propagate = False
    runs = {
        "recall": _recall_for_prompt,
        "retain": _retain_transcript,
        "start": _show_profile,
    }
    payload = read_hook_payload(sys.stdin.fileno())
    answer = hook_answer(payload, runs[parsed.verb](payload, options, end.seconds_left))
    end.allow_printing()
    data = memoryview(answer.encode("ascii"))
    while data:
        data = data[os.write(1, data) :]
    end.cancel_deadline()


def _recall_for_prompt(
    payload: Payload, options: Options, _: Callable[[], float]
) -> str:
    if not payload.prompt.strip() or not options.path.exists():
        return ""
    session, floor = payload.session_id, options.min_confidence
    with _open_hook_memory(options, read_only=True) as memory:
        preload = PreloadMemory(
            memory,
            **_owner_of_payload(payload, options),
            max_entries=_MOST_RECALLED,
            max_tokens=options.max_tokens,
            min_confidence=UNSET if floor is None else floor,
            format="secure",  # which is stripped when a transcript with it is stored
            count_tokens=_block_token_counter(options.max_tokens),
            # The agent has those of the session in its context.
            filter=None if session is None else Filter(not_session_id=session),
        )
        return asyncio.run(preload.block(payload.prompt))


def _show_profile(payload: Payload, options: Options, left: Callable[[], float]) -> str:
    if not options.path.exists():
        return ""
    with _open_hook_memory(options, read_only=True) as memory:
        owner = _owner_of_payload(payload, options)
        return profile_for_hook(memory, owner, max_tokens=options.max_tokens, left=left)


def _retain_transcript(
    payload: Payload, options: Options, left: Callable[[], float]
) -> str:
    turns, unread, path = payload.turns, 0, None
    if not turns:
        path = transcripts.find_transcript(payload.transcript, payload.session_id)
    if (path is None and not turns) or payload.session_id is None:
        raise PayloadError("the input names no session with a transcript")
    if path is not None:
        turns, unread = transcripts.read_turns(path, left)
    if unread:
        write_hook_log_line("retain", f"{unread} bytes of the transcript were not read")
    if not turns:
        return ""
    options.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _open_hook_memory(options, read_only=False) as memory:
        owner = _owner_of_payload(payload, options)
        refused, late = retain_turns(memory, owner, payload.session_id, turns, left)
    if refused:
        write_hook_log_line("retain", f"{refused} turns were refused")
    if late:
        write_hook_log_line("retain", f"{late} turns are left for the next hook")
    return ""


def _open_hook_memory(options: Options, *, read_only: bool) -> MemoryService:
    embedder = None if options.embedder == "none" else options.embedder
    return MemoryService(options.path, embedder=embedder, read_only=read_only)


def _owner_of_payload(payload: Payload, options: Options) -> Owner:
    user = options.user or user_of_project(payload.folder)
    return {"app_name": options.app, "user_id": user}

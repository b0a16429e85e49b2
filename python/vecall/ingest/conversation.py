"""Selects the turns of a conversation by the rules of google-adk's sessions.

A rewind takes turns back. Requests for a sign-in are not turns. A spoken turn counts as
its transcription. Objects and dicts of google-adk's shape are read; events without
these fields count unchanged. google-adk is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from vecall.content import get_field

Paced = Callable[[Iterable[object]], Iterator[object]]

# Events around these calls ask for a credential or a confirmation.
_INTERNAL_CALLS = {
    "adk_framework",
    "adk_request_confirmation",
    "adk_request_credential",
}


class Parted(NamedTuple):
    """A conversation's events, in order.

    Attributes:
        counted: The events that count.
        taken_back: The events that a rewind took back, and the rewinds themselves.
    """

    counted: list[object]
    taken_back: list[object]


def parted_by_rewind(events: Sequence[object], paced: Paced = iter) -> Parted:
    """Split events into those that count and those that a rewind took back.

    The rule is google-adk's: an event that rewinds to before an invocation takes back
    all events from the first one of that invocation up to itself.

    Args:
        events: The events, in order.
        paced: Iterates over the events and yields to other threads.
    """
    targets = {
        index: target
        for index, event in enumerate(paced(events))
        if (target := rewinds_to(event)) is not None
    }
    if not targets:
        return Parted(list(events), [])
    first: dict[str, int] = {}
    for index, event in enumerate(paced(events)):
        invocation = get_field(event, "invocation_id")
        if isinstance(invocation, str):
            first.setdefault(invocation, index)
    counted: list[object] = []
    taken_back: list[object] = []
    index = len(events) - 1
    while index >= 0:
        if target := targets.get(index):
            start = min(first.get(target, index), index)
            taken_back += reversed(events[start : index + 1])
            index = start
        else:
            counted.append(events[index])
        index -= 1
    return Parted(counted[::-1], taken_back[::-1])


def rewinds_to(event: object) -> str | None:
    """Return the invocation that an event rewinds to; None if it is no rewind."""
    actions = get_field(event, "actions")
    if actions is None:
        return None
    target = get_field(actions, "rewind_before_invocation_id")
    return target if isinstance(target, str) and target else None


def ids_of(events: Iterable[object]) -> list[str]:
    """Return the ids of those events that have one."""
    ids = (get_field(event, "id") for event in events)
    return [id_ for id_ in ids if isinstance(id_, str) and id_]


def said_in(event: object) -> object:
    """Return an event's content, text or transcription; itself if it has the parts.

    None for requests for a credential or confirmation, and for the answers to them.
    """
    content = get_field(event, "content")
    if content is None:
        content = get_field(event, "text")
    if content is None:
        if get_field(event, "parts") is None:
            return _heard(event)
        content = event  # a content by itself, as in Gemini's histories
    return None if _is_internal(content) else content


def _heard(event: object) -> str | None:
    for name in ("input_transcription", "output_transcription"):
        heard = get_field(event, name)
        text = None if heard is None else get_field(heard, "text")
        if isinstance(text, str) and get_field(heard, "finished") is not False:
            return text
    return None


def _is_internal(content: object) -> bool:
    parts = None if isinstance(content, str) else get_field(content, "parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        return False
    for part in parts:
        for kind in ("function_call", "function_response"):
            call = None if isinstance(part, str) else get_field(part, kind)
            name = None if call is None else get_field(call, "name")
            if isinstance(name, str) and name in _INTERNAL_CALLS:
                return True
    return False

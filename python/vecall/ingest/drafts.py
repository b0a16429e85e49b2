"""Converts events and entries to drafts; checks texts, ids and limits.

All checks happen here, before anything is written. One turn never costs its neighbours:
a text that is too long becomes passages, and a turn with another error is left out with
its reason. Only a call of which no turn can be stored raises the error. Explicit
memories are checked together: the first error is that of the call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from vecall.clock import to_seconds
from vecall.concurrency.time_slices import Paced, in_slices
from vecall.content import get_field, get_list, get_role, text_parts, to_valid_utf8
from vecall.errors import InvalidArgumentError, InvalidTypeError, LimitExceededError
from vecall.ingest.fields import (
    ENTRY,
    EVENT,
    SESSION,
    CallMetadata,
    check_event_parts,
    copy_metadata,
    fields_by_vecall_name,
    merge_metadata,
    metadata_json,
    require_same,
)
from vecall.ingest.parts import (
    inner_part_reader,
    speaker_of_event,
    texts_of_program,
    texts_of_tool_calls,
    unwrap_langchain_message,
)
from vecall.ingest.passages import Passages, each_draft, in_passages, needs_passages
from vecall.limits import Limits
from vecall.scalars import exact
from vecall.store import Draft, Row, make_memory_id
from vecall.types import AddedIds, Event, LeftOut, LeftOutReason, check_share
from vecall.validation import check_name, is_valid_name

# Selects the turns of a conversation by the rules of google-adk's sessions.
#
# A rewind takes turns back. Requests for a sign-in are not turns. A spoken turn counts
# as its transcription. Objects and dicts of google-adk's shape are read; events without
# these fields count unchanged. google-adk is not imported.


# Events around these calls ask for a credential or a confirmation.
_INTERNAL_CALLS = {
    "adk_framework",
    "adk_request_confirmation",
    "adk_request_credential",
}


class Parted(NamedTuple):
    """The events that count, and those that a rewind took back, with the rewinds."""

    counted: list[object]
    taken_back: list[object]


def split_by_rewind(events: Sequence[object], paced: Paced[object] = iter) -> Parted:
    """Split events into those that count and those that a rewind took back."""
    # The rule is google-adk's: an event that rewinds to before an invocation takes back
    # all events from the first one of that invocation up to itself.
    targets = {
        index: target
        for index, event in enumerate(paced(events))
        if (target := rewind_target(event)) is not None
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


def rewind_target(event: object) -> str | None:
    """Return the invocation that an event rewinds to; None if it is no rewind."""
    actions = get_field(event, "actions")
    if actions is None:
        return None
    target = get_field(actions, "rewind_before_invocation_id")
    return target if isinstance(target, str) and target else None


def event_ids(events: Iterable[object]) -> list[str]:
    """Return the ids of those events that have one."""
    ids = (get_field(event, "id") for event in events)
    return [id_ for id_ in ids if isinstance(id_, str) and id_]


def content_of_event(event: object) -> object:
    """Return an event's content, text or transcription; itself if it has the parts."""
    # None for requests for a credential or confirmation, and for the answers to them.
    content = get_field(event, "content")
    if content is None:
        content = get_field(event, "text")
    if content is None:
        if get_field(event, "parts") is None:
            return _finished_transcription(event)
        content = event  # a content by itself, as in Gemini's histories
    return None if _is_internal_content(content) else content


def _finished_transcription(event: object) -> str | None:
    for name in ("input_transcription", "output_transcription"):
        heard = get_field(event, name)
        text = None if heard is None else get_field(heard, "text")
        if isinstance(text, str) and get_field(heard, "finished") is not False:
            return text
    return None


def _is_internal_content(content: object) -> bool:
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


_log = logging.getLogger("vecall")

Given = Draft | Passages | LeftOutReason | InvalidArgumentError
"""An item of a call: its draft or drafts, or why there is none."""

EPISODE = "episode"
"""The kind of a memory that is a turn of a conversation."""

# Constants, because isinstance(x, A | B) builds the union on each call.
_NOT_EVENTS = (str, bytes, int, float, list, tuple)
_STRICT = (Mapping, Event)
_READABLE = (str, Mapping)
_TIMES = (float, int, str, datetime)


class SessionHead(NamedTuple):
    """A session's names and its unparsed events."""

    app: str
    user: str
    id: str
    events: list[Any]


def parse_session_head(session: object, limits: Limits) -> SessionHead:
    """Parse a session without its events."""
    session = fields_by_vecall_name(session, SESSION, "session")
    app = check_name(get_field(session, "app_name"), "session.app_name", limits)
    user = check_name(get_field(session, "user_id"), "session.user_id", limits)
    session_id = check_name(session_id_of(session), "session.id", limits)
    return SessionHead(app, user, session_id, get_list(session, "events", "events"))


def session_id_of(session: object) -> Any:
    """Return the id of a session, under either of its names."""
    id_ = get_field(session, "id")
    return get_field(session, "session_id") if id_ is None else id_


class GivenTurns(NamedTuple):
    """The drafts of events, or why there is none, and the ids that were taken back."""

    given: list[Given]
    taken_back: list[str]

    @property
    def drafts(self) -> list[Draft]:
        """The drafts, without the reasons."""
        return each_draft(self.given)


def events_or_messages(events: object, messages: object) -> object:
    """Return `events`, or `messages` if `events` is None."""
    if events is not None and messages is not None:
        raise InvalidArgumentError("events, messages: expected one of them")
    return messages if events is None else events


def event_drafts(
    events: Iterable[object],
    session_id: str | None,
    scope: CallMetadata,
    limits: Limits,
) -> list[Given]:
    """Return, for each event in order, its draft or the reason why there is none."""
    # For worker threads: it yields to other threads.
    return drafts_of_turns(list(events), session_id, scope, limits, in_slices).given


def drafts_of_turns(
    events: Sequence[object],
    session_id: str | None,
    scope: CallMetadata,
    limits: Limits,
    paced: Paced[object] = iter,
) -> GivenTurns:
    """Return the drafts of events, and the ids that a rewind took back."""
    counted, taken_back = split_by_rewind(events, paced)
    given: list[Given] = []
    at = 0  # index in `counted` of the next event that counts
    for number, event in enumerate(paced(events)):
        if at == len(counted) or counted[at] is not event:
            given.append("rewound")
            continue
        at += 1
        where = f"events[{number}]"
        try:
            read = _draft_of_event(event, where, session_id, scope, limits)
        except InvalidArgumentError as error:
            read = type(error)(*error.args)  # without what it refers to
        given.append(in_passages(read, limits) if isinstance(read, Draft) else read)
    return GivenTurns(given, memory_ids_of(taken_back, session_id))


def memory_ids_of(events: Iterable[object], session_id: str | None) -> list[str]:
    """Return the ids of the memories of those events that have an id."""
    return [make_memory_id(session_id, id_) for id_ in event_ids(events)]


def _draft_of_event(
    event: object,
    where: str,
    session_id: str | None,
    scope: CallMetadata,
    limits: Limits,
) -> Draft | LeftOutReason | InvalidArgumentError:
    if isinstance(event, InvalidArgumentError):
        return event  # what an adapter met when it read the event
    if event is None or isinstance(event, _NOT_EVENTS):
        raise InvalidTypeError("events: expected events as objects or mappings")
    # Mappings and Events are read strictly. A framework's objects may have
    # attributes of other types, which are ignored.
    strict = type(event) is dict or isinstance(event, _STRICT)
    event = unwrap_langchain_message(event)
    message, speaker = event, speaker_of_event(event)
    if speaker.program is not None and speaker.program not in scope.include:
        return "role"
    event = fields_by_vecall_name(event, EVENT, where)
    require_same(event, "session_id", session_id or "", where)
    _require_same_owner(event, scope, where)
    if get_field(event, "partial") is True:
        return "partial"  # a piece of a streamed turn; the whole turn follows
    content = content_of_event(event)
    if strict:
        _check_event_values(event, content)
    texts = _texts_of_turn(message, content, speaker.program, scope.include)
    text = to_valid_utf8("\n".join(texts))
    if not text.strip():
        return "no_text"
    author = _author_or_role(event) or speaker.author
    ts, moment = None, exact(get_field(event, "timestamp"))
    if isinstance(moment, _TIMES) and not isinstance(moment, bool):
        ts = to_seconds(moment, "event.timestamp")
    event_id = exact(get_field(event, "id"))
    if not strict and (not isinstance(event_id, str) or not event_id):
        event_id = None
    if event_id:
        id_ = make_memory_id(session_id, event_id)
        if not is_valid_name(event_id, limits):
            event_id = None  # it identifies the turn, but cannot be stored
    else:
        event_id = None
        id_ = make_memory_id(session_id, author, ts, text)
    own = get_field(event, "custom_metadata")
    scope = merge_metadata(scope, own if isinstance(own, Mapping) else None)
    importance = get_field(event, "importance") if strict else None
    if importance is not None:
        importance = check_share(importance, "importance")
    return Draft(
        id=id_,
        text=text,
        session=session_id,
        event=event_id,
        ts=ts,
        ttl=scope.ttl,
        revision_ttl=scope.revision_ttl,
        author=author,
        kind=_text_or_none(get_field(event, "kind")) or EPISODE,
        source=_text_or_none(get_field(event, "source")),
        trust=_text_or_none(get_field(event, "trust")),
        content=_json_of_content_parts(message if content is event else content, texts),
        meta=metadata_json(scope.meta, limits, in_order=scope.verbatim),
        importance=importance,
        ordered=True,
    )


def _texts_of_turn(
    message: object, content: object, program: str | None, include: frozenset[str]
) -> list[str]:
    """Return the texts of a turn: what was said, and what `include` names."""
    texts = text_parts(content, inner_part_reader(include))
    if program is not None:
        return texts_of_program(message, program, content, texts)
    return texts + texts_of_tool_calls(message) if "calls" in include else texts


def _check_event_values(event: object, content: object) -> None:
    """Refuse values of a wrong type, rather than ignore them."""
    for name in ("id", "author", "kind", "source", "trust"):
        value = get_field(event, name)
        if value is not None and not isinstance(value, str):
            raise InvalidTypeError(f"event.{name}: expected a string")
    time_given = get_field(event, "timestamp")
    if time_given is not None:
        to_seconds(time_given, "event.timestamp")
    copy_metadata(get_field(event, "custom_metadata"))
    if content is not None and not _is_readable_content(content):
        msg = "event.content: expected a text, or a content with parts"
        raise InvalidTypeError(msg)
    check_event_parts(event)


def _is_readable_content(content: object) -> bool:
    """Whether a value is a content, with or without text."""
    if isinstance(content, list | tuple):
        return all(
            isinstance(part, _READABLE) or isinstance(get_field(part, "type"), str)
            for part in content
        )
    return isinstance(content, _READABLE) or hasattr(content, "parts")


def entry_drafts(
    memories: Iterable[object],
    scope: CallMetadata,
    limits: Limits,
    paced: Paced[object] = iter,
) -> list[Given]:
    """Return the drafts of explicit memories: strings, mappings, entries."""
    return [
        in_passages(_entry_draft(entry, f"memories[{number}]", scope, limits), limits)
        for number, entry in enumerate(paced(memories))
    ]


def draft_of_entry(entry: object, scope: CallMetadata, limits: Limits) -> Draft:
    """Return the draft of one explicit memory, which has one passage."""
    draft = _entry_draft(entry, "memories[0]", scope, limits)
    if needs_passages(draft.text, limits):
        msg = f"text: at most max_text_bytes = {limits.max_text_bytes} bytes"
        raise LimitExceededError(msg)
    return draft


def require_some_draft(given: Sequence[Given]) -> None:
    """Raise the first error of a call of which nothing can be stored because of it."""
    errors = [item for item in given if isinstance(item, InvalidArgumentError)]
    if not errors:
        return
    if not each_draft(given):
        raise type(errors[0])(*errors[0].args)
    _log.warning(
        "%d of %d items of a call cannot be stored and are left out: %s",
        len(errors),
        len(given),
        errors[0],
    )


def _entry_draft(
    entry: object, where: str, scope: CallMetadata, limits: Limits
) -> Draft:
    if isinstance(entry, str):  # it has no other field
        text = _require_draft_text(text_parts(entry))
        return Draft(
            make_memory_id(None, None, None, text),
            text,
            ttl=scope.ttl,
            revision_ttl=scope.revision_ttl,
            meta=metadata_json(scope.meta, limits, in_order=scope.verbatim),
        )
    fields = fields_by_vecall_name(entry, ENTRY, where)
    _require_same_owner(fields, scope, where)
    content = get_field(fields, "content")
    if content is None:
        content = get_field(fields, "text")
    if content is None and get_field(fields, "parts") is not None:
        content = fields  # a content by itself
    if content is None or not _is_readable_content(content):
        msg = "memories: expected strings, or entries with a text as content"
        raise InvalidTypeError(msg)
    texts = text_parts(content)
    text = _require_draft_text(texts)
    session_id = _checked_name_field(fields, "session_id", limits)
    event_id = _checked_name_field(fields, "event_id", limits)
    author = _author_or_role(fields)
    given = get_field(fields, "timestamp")
    ts = None if given is None else to_seconds(given, "timestamp")
    id_ = _checked_name_field(fields, "id", limits)
    if id_ is None and event_id is not None:
        id_ = make_memory_id(session_id, event_id)
    importance = get_field(fields, "importance")
    if importance is not None:
        importance = check_share(importance, "importance")
    id_ = id_ or make_memory_id(session_id, author, ts, text)
    supersedes = _checked_name_field(fields, "supersedes", limits)
    if supersedes == id_:
        raise InvalidArgumentError("supersedes: must be the id of another memory")
    scope = merge_metadata(scope, get_field(fields, "custom_metadata"))
    until = get_field(fields, "valid_until")
    return Draft(
        id=id_,
        text=text,
        session=session_id,
        event=event_id,
        ts=ts,
        ttl=scope.ttl,
        revision_ttl=scope.revision_ttl,
        valid_until=None if until is None else to_seconds(until, "valid_until"),
        supersedes=supersedes,
        author=author,
        kind=_text_or_none(get_field(fields, "kind")),
        source=_text_or_none(get_field(fields, "source")),
        trust=_text_or_none(get_field(fields, "trust")),
        content=_json_of_content_parts(content, texts),
        meta=metadata_json(scope.meta, limits, in_order=scope.verbatim),
        importance=importance,
    )


def _require_draft_text(texts: Sequence[str]) -> str:
    text = to_valid_utf8("\n".join(texts))
    if not text.strip():
        msg = "memories: every entry needs a text, neither blank nor only recalled"
        raise InvalidArgumentError(msg)
    return text


def _require_same_owner(fields: object, scope: CallMetadata, where: str) -> None:
    require_same(fields, "app_name", scope.app, where)
    require_same(fields, "user_id", scope.user, where)


def _author_or_role(fields: object) -> str | None:
    """Return the author, or the role of a chat message."""
    author = get_field(fields, "author")
    return _text_or_none(get_field(fields, "role") if author is None else author)


def _checked_name_field(fields: object, name: str, limits: Limits) -> str | None:
    value = get_field(fields, name)
    return None if value is None else check_name(value, name, limits)


def _text_or_none(value: object) -> str | None:
    """Return a non-empty string as valid UTF-8; None for other values."""
    if value is None:
        return None
    value = exact(value)
    return to_valid_utf8(value) if isinstance(value, str) and value else None


def _json_of_content_parts(content: object, texts: Sequence[str]) -> str | None:
    """Return a content of several parts as JSON; None for a single text."""
    if len(texts) < 2:
        return None
    parts = [{"text": to_valid_utf8(text)} for text in texts]
    role = get_role(content)
    stored: dict[str, object] = {"parts": parts}
    if role is not None:
        stored = {"role": to_valid_utf8(role), **stored}
    return json.dumps(stored, ensure_ascii=False)


# The result of a call: an id, or None and a reason, for each of its items.


class Written(NamedTuple):
    """The ids of what is stored, why the others are left out, and what else changed.

    `edited` is the memory that a correction changed, as it left it, `folded` how many
    were archived in favour of a summary.
    """

    ids: list[str]
    left_out: Mapping[str, LeftOutReason]
    edited: Row | None = None
    folded: int = 0


def align_ids_with_items(
    given: Iterable[Given], written: Written, paced: Paced[Given] = iter
) -> AddedIds:
    """Return an id, or None and a reason, for each item of a call."""
    # The id of an item with several passages is that of the first one that is stored.
    stored = set(written.ids)
    ids: list[str | None] = []
    left_out = []
    for index, item in enumerate(paced(given)):
        if isinstance(item, Draft) and item.id in stored:
            ids.append(item.id)
            continue
        id_ = None
        if isinstance(item, Passages):
            id_ = next((each.id for each in item if each.id in stored), None)
        ids.append(id_)
        if id_ is None:
            left_out.append(_why_left_out(index, item, written.left_out))
    added = AddedIds(ids)
    added.left_out = tuple(left_out)
    return added


def _why_left_out(
    index: int, item: Given, left_out: Mapping[str, LeftOutReason]
) -> LeftOut:
    """Return why an item is not stored."""
    if isinstance(item, Passages):
        item = item[0]
    if isinstance(item, Draft):
        return LeftOut(index, left_out[item.id])
    if isinstance(item, InvalidArgumentError):
        return LeftOut(index, "invalid", str(item))
    return LeftOut(index, item)


def count_stored_ids(ids: AddedIds) -> int:
    """Return the number of a call's items that are stored."""
    return len(ids) - len(ids.left_out)

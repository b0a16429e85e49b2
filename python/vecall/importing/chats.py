"""Readers of chats, exports of assistants and other memories, in JSON or SQLite.

Each reader is a generator of records. What a role, a length or a time means is decided
by the intake of memories; a reader only finds the fields, and counts those it leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from vecall.clock import end_of_day_utc
from vecall.coding_agents.transcript import LineTurns, turns_of_transcript_line
from vecall.importing.sources import (
    MOST_CHARACTERS,
    Record,
    Source,
    drop_missing_fields,
    expected,
    imported_time,
    mapping_of,
)
from vecall.ingest.parts import is_instruction_role, unwrap_langchain_message
from vecall.store import ForeignFile, make_memory_id

_ROW = 200  # bytes of the fields of a turn besides its text, about


def make_turn_record(
    place: str,
    *,
    session: str,
    event: str,
    role: object,
    content: object,
    timestamp: object = None,
    kind: object = None,
    metadata: object = None,
    **named: Any,
) -> Record:
    """Return the record of a turn; `kind` is its type, which the intake knows."""
    own = metadata if isinstance(metadata, dict) else {}
    first = drop_missing_fields(**named)  # it stands first and wins
    item = {
        "session_id": session,
        "event_id": event,
        "role": role,
        "content": content,
        "timestamp": imported_time(timestamp, place),
        "custom_metadata": {**first, **drop_missing_fields(**own), **first} or None,
    }
    if kind is not None:
        item["type"] = kind
    size = len(content) if isinstance(content, str) else len(str(content))
    return Record(place, item, _ROW + size)


def _memory(
    source: Source, place: str, text: object, metadata: object, **named: Any
) -> Iterator[Record]:
    """Yield the record of a memory, unless it has no text."""
    if not isinstance(text, str) or not text.strip():
        source.tally.left_out["no_text"] += 1
        return
    for name in ("timestamp", "valid_until"):
        named[name] = imported_time(named.get(name), place)
    item = {**named, "text": text, "custom_metadata": metadata}
    yield Record(place, item, _ROW + len(text))


def _read_json_objects(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of a file with their places."""
    for place, value, _, _ in source.json_values:
        yield place, mapping_of(value, place)


def _numbered_json_objects(
    values: Iterable[object], place: str, what: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a list with their places."""
    for number, value in enumerate(values, 1):
        where = f"{place}, {what} {number}"
        yield where, mapping_of(value, where)


def chained_id(previous: str, role: object, content: object) -> str:
    """Return the id of a turn that has none: of all that was said up to it."""
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True)
    return make_memory_id(previous, str(role), text)


def read_own_lines(source: Source) -> Iterator[Record]:
    """Read vecall's own lines, or an array of the same objects."""
    for place, value, _, size in source.json_values:
        yield Record(place, mapping_of(value, place), size)


_MESSAGE = "role content name timestamp created_at created metadata id".split()


def read_openai_chats(source: Source) -> Iterator[Record]:
    """Read chat messages; what is not in an array or object of its own is one chat."""
    heads: dict[int, str] = {}
    for place, value, array, _ in source.json_values:
        if isinstance(value, list):
            yield from _openai_turns(source, value, place)
        elif isinstance(value, dict) and isinstance(value.get("messages"), list):
            source.tally.count_other(value, ("messages",))
            yield from _openai_turns(source, value["messages"], place)
        else:
            name = source.session if array < 2 else f"{source.session}-{array}"
            before = heads.get(array, name)
            record = _openai_turn(source, mapping_of(value, place), place, name, before)
            heads = {array: record.item["event_id"]}
            yield record


def _openai_turns(source: Source, messages: list[Any], place: str) -> Iterator[Record]:
    session = head = make_memory_id(json.dumps(messages, sort_keys=True))
    for where, message in _numbered_json_objects(messages, place, "message"):
        record = _openai_turn(source, message, where, session, head)
        head = record.item["event_id"]
        yield record


def _openai_turn(
    source: Source, message: dict[str, Any], place: str, session: str, before: str
) -> Record:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        expected(place, 'a chat message with a "role"')
    source.tally.count_other(message, _MESSAGE)
    times = (message.get(name) for name in ("timestamp", "created_at", "created"))
    return make_turn_record(
        place,
        session=session,
        event=chained_id(before, role, content),
        role=role,
        content=content,
        timestamp=next((time for time in times if time is not None), None),
        metadata=message.get("metadata"),
        name=message.get("name"),
        message_id=message.get("id"),
    )


_CHATGPT = (
    "title create_time mapping current_node conversation_id id update_time".split()
)
_CHATGPT_MESSAGE = "id author create_time content metadata recipient".split()
_HIDDEN = "is_visually_hidden_from_conversation"


def of_chatgpt(source: Source) -> Iterator[Record]:
    """Read conversations.json: the branch of each conversation that was shown last."""
    for place, conversation in _read_json_objects(source):
        nodes = mapping_of(conversation.get("mapping"), f"{place}, mapping")
        session = conversation.get("conversation_id") or conversation.get("id")
        if not isinstance(session, str):
            expected(place, "a conversation with an id")
        source.tally.count_other(conversation, _CHATGPT)
        path = _shown_chatgpt_branch(nodes, conversation.get("current_node"), place)
        spoken = sum(map(_is_said_node, nodes.values())) - sum(map(_is_said_node, path))
        if spoken:
            source.tally.left_out["other_branch"] += spoken
        for number, node in enumerate(path, 1):
            if _is_said_node(node):
                where, title = f"{place}, message {number}", conversation.get("title")
                message = node["message"]
                yield from _read_chatgpt_message(source, message, where, session, title)


def _is_said_node(node: object) -> bool:
    return isinstance(node, dict) and isinstance(node.get("message"), dict)


def _shown_chatgpt_branch(
    nodes: dict[Any, Any], current: object, place: str
) -> list[Mapping[str, Any]]:
    """Return the nodes from the root to the current one, or to the last leaf."""
    if current not in nodes:
        leaves = [
            name
            for name, node in nodes.items()
            if isinstance(node, dict) and not node.get("children")
        ]
        current = leaves[-1] if leaves else None
    path: list[Mapping[str, Any]] = []
    seen: set[object] = set()
    while current is not None and current in nodes:
        if current in seen:
            expected(place, "a tree of messages; a message is its own parent")
        seen.add(current)
        node = mapping_of(nodes[current], f"{place}, a node of its mapping")
        path.append(node)
        current = node.get("parent")
    return path[::-1]


def _read_chatgpt_message(
    source: Source, message: dict[str, Any], place: str, session: str, title: object
) -> Iterator[Record]:
    author = mapping_of(message.get("author"), f"{place}, author")
    content = mapping_of(message.get("content"), f"{place}, content")
    metadata = message.get("metadata") or {}
    kind = content.get("content_type")
    parts = content.get("parts")
    reason = ""
    if metadata.get(_HIDDEN) or is_instruction_role(author.get("role")):
        reason = "hidden"
    elif kind not in ("text", "multimodal_text") or not isinstance(parts, list):
        reason = str(kind)  # thoughts, code, results of tools
    elif message.get("recipient") not in (None, "all"):
        reason = "call"
    if reason or not isinstance(parts, list):
        source.tally.left_out[reason] += 1
        return
    for part in parts:
        if isinstance(part, dict) and not part.get("text"):
            source.tally.fields[str(part.get("content_type"))] += 1
    source.tally.count_other(message, _CHATGPT_MESSAGE)
    source.tally.count_other(metadata, ("model_slug",), "metadata.")
    event = message.get("id")
    if not isinstance(event, str):
        expected(place, "a message with an id")
    yield make_turn_record(
        place,
        session=session,
        event=event,
        role=author.get("role"),
        content={"parts": parts},
        timestamp=message.get("create_time"),
        name=author.get("name"),
        title=title,
        model=metadata.get("model_slug"),
    )


_CLAUDE = "uuid name created_at updated_at chat_messages".split()
_CLAUDE_MESSAGE = "uuid text content sender created_at updated_at".split()


def read_claude(source: Source) -> Iterator[Record]:
    """Read the conversations.json of Claude's export."""
    for place, conversation in _read_json_objects(source):
        session, messages = conversation.get("uuid"), conversation.get("chat_messages")
        if not isinstance(session, str) or not isinstance(messages, list):
            expected(place, 'a conversation with "uuid" and "chat_messages"')
        source.tally.count_other(conversation, _CLAUDE)
        for where, message in _numbered_json_objects(messages, place, "message"):
            event, sender = message.get("uuid"), message.get("sender")
            if not isinstance(event, str) or not isinstance(sender, str):
                expected(where, 'a message with "uuid" and "sender"')
            source.tally.count_other(message, _CLAUDE_MESSAGE)
            content = message.get("content") or message.get("text")
            if isinstance(content, list):
                for part in content:
                    if isinstance(part, dict) and part.get("type") != "text":
                        source.tally.fields[f"content.{part.get('type')}"] += 1
            yield make_turn_record(
                where,
                session=session,
                event=event,
                role="user" if sender == "human" else sender,
                content=content,
                timestamp=message.get("created_at"),
                title=conversation.get("name"),
            )


def read_transcript(source: Source) -> Iterator[Record]:
    """Read a transcript of Claude Code, Codex or Cursor, with its whole texts."""
    session = source.session
    has_others = source.path is not None and _has_codex_events(source.path)
    spare: list[Record] = []
    at = number = 0
    while line := source.stream.readline(MOST_CHARACTERS + 1):
        number += 1
        place = f"line {number}"
        if len(line) > MOST_CHARACTERS:
            expected(place, f"at most {MOST_CHARACTERS:,} bytes")
        found = turns_of_transcript_line(line, at) if line.strip() else LineTurns([])
        at += len(line)
        if not found.is_known and not _is_json_object_line(line):
            expected(place, "a JSON object, as the line of a transcript")
        session = found.session_id or session
        if not found.turns and line.strip():
            source.tally.left_out["not_said"] += 1
        for each in found.turns:
            record = make_turn_record(
                place,
                session=session,
                event=each.id,
                role=each.author,
                content=each.text,
                timestamp=each.timestamp,
                metadata=each.metadata,
            )
            if not found.is_spare:
                has_others, spare = True, []
                yield record
            elif not has_others:
                spare.append(record)
                if source.path is not None:  # no event follows
                    yield spare.pop()
    yield from spare


def _is_json_object_line(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _has_codex_events(path: Any) -> bool:
    """Whether Codex wrote events, so that its messages to the model are no turns."""
    marks = (b'"user_message"', b'"agent_message"')
    with path.open("rb") as stream:
        return any(
            b'"event_msg"' in line and any(mark in line for mark in marks)
            for line in iter(partial(stream.readline, MOST_CHARACTERS), b"")
        )


def of_langchain(source: Source) -> Iterator[Record]:
    """Read what `messages_to_dict` or `FileChatMessageHistory` wrote."""
    head = source.session
    for place, value in _read_json_objects(source):
        record = _read_langchain_message(source, value, place, source.session, head)
        head = record.item["event_id"]
        yield record


def _read_langchain_message(
    source: Source,
    value: dict[str, Any],
    place: str,
    session: str,
    before: str,
    event: str = "",
) -> Record:
    """Return the turn of a message of LangChain's, of which it may be an envelope."""
    message = unwrap_langchain_message(value)
    if not isinstance(message.get("type"), str):
        expected(place, 'a message of LangChain with a "type"')
    content = message.get("content")
    source.tally.count_other(message, ("type", "content", "name", "id", "example"))
    return make_turn_record(
        place,
        session=session,
        event=event or chained_id(before, message["type"], content),
        role=None,
        content=content,
        kind=message["type"],
        name=message.get("name"),
        message_id=message.get("id"),
    )


_MEM0 = (
    "id memory metadata created_at updated_at user_id agent_id run_id actor_id role "
    "categories expiration_date hash score"
).split()


def read_mem0(source: Source) -> Iterator[Record]:
    """Read what mem0's `get_all`, `search` or its platform returned."""
    for at, page in _read_json_objects(source):
        listed = [n for n in ("results", "memories") if isinstance(page.get(n), list)]
        entries: Iterable[tuple[str, dict[str, Any]]] = [(at, page)]
        for name in listed[:1]:
            source.tally.count_other(page, (name, "count", "next", "previous"))
            entries = _numbered_json_objects(page[name], at, "record")
        for place, entry in entries:
            text = "" if entry.get("memory", "-") is None else entry.get("memory")
            if not isinstance(text, str) or not isinstance(entry.get("id"), str):
                expected(place, 'a memory with "id" and "memory"')
            if text.strip():
                source.tally.count_other(entry, _MEM0)
            own, more = entry.get("metadata"), ("agent_id", "updated_at", "categories")
            metadata = own if isinstance(own, dict) else {}
            metadata |= drop_missing_fields(**{name: entry.get(name) for name in more})
            until = entry.get("expiration_date")
            is_day = isinstance(until, str) and len(until) == 10 and until[4] == "-"
            if text.strip() and is_day:
                until = imported_time(until, place, "expiration_date", end_of_day_utc)
            yield from _memory(
                source,
                place,
                text,
                metadata,
                id=entry["id"],
                user_id=entry.get("user_id"),
                session_id=entry.get("run_id"),
                author=entry.get("actor_id") or entry.get("role"),
                timestamp=entry.get("created_at"),
                valid_until=until,
            )


def read_chroma(source: Source) -> Iterator[Record]:
    """Read what `collection.get()` of Chroma returned."""
    for place, columns in _read_json_objects(source):
        ids = columns.get("ids")
        if not isinstance(ids, list):
            expected(place, 'a JSON object with "ids", as collection.get() returns it')
        none = [None] * len(ids)
        documents = columns.get("documents") or none
        metadatas = columns.get("metadatas") or none
        if not len(ids) == len(documents) == len(metadatas):
            expected(place, "as many documents and metadatas as ids")
        source.tally.count_other(columns, ("ids", "documents", "metadatas", "included"))
        for number, row in enumerate(zip(ids, documents, metadatas, strict=True), 1):
            yield from _read_chroma_entry(source, f"{place}, record {number}", *row)


def _read_chroma_entry(
    source: Source,
    place: str,
    id_: object,
    document: object,
    metadata: object,
    timestamp: object = None,
) -> Iterator[Record]:
    if not isinstance(id_, str) or not isinstance(document, str | None):
        expected(place, "an id and a document that are texts")
    if not isinstance(metadata, dict | None):
        expected(place, "metadata as a JSON object")
    yield from _memory(source, place, document, metadata, id=id_, timestamp=timestamp)


def require_json_object(text: object, place: str) -> dict[str, Any]:
    """Return a JSON object from itself or its text; the error has the place."""
    try:
        value = json.loads(text) if isinstance(text, str | bytes) else text
    except (ValueError, RecursionError):
        value = None
    return mapping_of(value, place)


# The SQLite files of other programs.

_EVENTS = "id app_name user_id session_id timestamp"
_OF_MEMORY = f"{_EVENTS.removeprefix('id ')} event_id author content_json"


def format_of_tables(file: ForeignFile) -> str | None:
    """Return the name of the format that a file's tables are of; None for no known."""
    for name, (table, columns, _) in _TABLES.items():
        if file.has_table(table, columns):
            return name.partition(" ")[0]
    return None


def read_chat_database(source: Source, wanted: str) -> Iterator[Record]:
    """Read a SQLite file of one format; the error says that it has no such tables."""
    with ForeignFile(source.require_source_path()) as file:
        for name, (table, columns, reader) in _TABLES.items():
            if name.partition(" ")[0] == wanted and file.has_table(table, columns):
                source.total = max(file.count_rows(table), 1)
                yield from reader(source, file, table)
                return
        expected(source.name, f"the tables of a {wanted} database")


def _read_table_rows(
    source: Source, file: ForeignFile, table: str, *order: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table with their places; count them as progress."""
    for row in file.rows(table, order):
        source.rows += 1
        yield f"{table} row {source.rows}", row


def _adk_sessions(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the sessions of google-adk, each as a whole: an event may rewind others."""
    for name, label in (("app_states", "app state"), ("user_states", "user state")):
        if name in file.columns:
            source.tally.fields[label] += file.count_rows(name)
    for session in file.rows("sessions"):
        source.tally.fields["state"] += session.get("state") not in (None, "", "{}")
    owner = itemgetter("app_name", "user_id", "session_id")
    order = ("app_name", "user_id", "session_id", "timestamp")
    rows = _read_table_rows(source, file, table, *order)
    for (app, user, session_id), group in groupby(rows, lambda each: owner(each[1])):
        events = []
        first, size = "", 0
        for place, row in group:
            first = first or place
            events.append(_read_adk_event(source, row, place))
            size += _ROW + len(str(row.get("event_data") or row.get("content") or ""))
        names = {"app_name": app, "user_id": user, "id": session_id}
        yield Record(f"{first} and after it", {**names, "events": events}, size)


def _read_adk_event(source: Source, row: dict[str, Any], place: str) -> dict[str, Any]:
    if "event_data" in row:
        event = require_json_object(row["event_data"], place)
        source.tally.count_other(event, _ADK_KNOWN)
        stamp = event.get("timestamp", row["timestamp"])
        return {**event, "id": row["id"], "timestamp": imported_time(stamp, place)}
    # The older schema: a column for each field. Its actions are a pickle, which runs
    # code when it is read.
    if row.get("actions"):
        source.tally.fields["actions"] += 1
    event = drop_missing_fields(
        id=row["id"],
        author=row.get("author"),
        timestamp=imported_time(row["timestamp"], place),
        branch=row.get("branch"),
        partial=bool(row.get("partial")) or None,
        invocation_id=row.get("invocation_id"),
    )
    for name in ("content", "custom_metadata", "input_transcription", *_OLDER):
        if row.get(name):
            event[name] = require_json_object(row[name], place)
    source.tally.count_other(row, (*event, *_ADK_COLUMNS))
    return event


_OLDER = ("output_transcription",)
_ADK_COLUMNS = "app_name user_id session_id actions interrupted turn_complete".split()
_ADK_KNOWN = (
    "id author timestamp content partial actions invocationId invocation_id "
    "turnComplete turn_complete branch customMetadata custom_metadata "
    "inputTranscription outputTranscription input_transcription output_transcription"
).split()


def _adk_memory_rows(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    order = ("app_name", "user_id", "session_id", "timestamp")
    for place, row in _read_table_rows(source, file, table, *order):
        record = make_turn_record(
            place,
            session=row["session_id"],
            event=row["event_id"],
            role=None,
            content=require_json_object(row["content_json"], place),
            timestamp=row["timestamp"],
        )
        names = {name: row[name] for name in ("app_name", "user_id", "author")}
        yield record._replace(item={**record.item, **names})


def _openai_messages(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    for place, row in _read_table_rows(source, file, table, "session_id", "id"):
        message = require_json_object(row["message_data"], place)
        source.tally.count_other(message, ("role", "content", "type", "id", "status"))
        yield make_turn_record(
            place,
            session=row["session_id"],
            event=str(row["id"]),
            role=message.get("role"),
            content=message.get("content"),
            timestamp=row.get("created_at"),
            kind=message.get("type"),
            message_id=message.get("id"),
        )


def _langchain_rows(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    for place, row in _read_table_rows(source, file, table, "session_id", "id"):
        message = require_json_object(row["message"], place)
        session, id_ = str(row["session_id"]), str(row["id"])
        yield _read_langchain_message(source, message, place, session, "", id_)


def _langgraph_items(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the items of LangGraph's store: namespace, key, value, times and TTL."""
    vectors = file.count_rows("store_vectors") if "store_vectors" in file.columns else 0
    if vectors:
        source.tally.fields["embedding"] += vectors
    for place, row in _read_table_rows(source, file, table):
        updated = imported_time(row["updated_at"], place)
        item = drop_missing_fields(
            created_at=imported_time(row["created_at"], place),
            updated_at=updated,
            expires_at=imported_time(row.get("expires_at"), place),
        )
        if "expires_at" in item and row.get("ttl_minutes"):
            item["ttl"] = 60.0 * row["ttl_minutes"]
        elif "expires_at" in item:
            source.tally.fields["expires_at"] += 1
            del item["expires_at"]
        value = require_json_object(row["value"], place)
        path = row["prefix"].split(".") if row["prefix"] else []
        item |= {"ns": path, "key": row["key"], "value": value}
        yield Record(place, {"item": item}, _ROW + len(str(row["value"])))


def _mem0_history(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read what each memory of mem0 said last; a deleted one is left out."""
    rows = _read_table_rows(source, file, table, "memory_id")
    if "messages" in file.columns:
        source.tally.fields["messages"] += file.count_rows("messages")
    for id_, group in groupby(rows, lambda each: each[1]["memory_id"]):
        place = ""
        row: dict[str, Any] = {}
        versions = -1
        begun: object = None
        for place, row in group:  # noqa: B007
            versions += 1
            begun = begun or row["created_at"]
        if row.get("is_deleted") or str(row["event"]).upper() == "DELETE":
            source.tally.left_out["deleted"] += 1
            continue
        if versions:
            source.tally.fields["former version"] += versions
        yield from _memory(
            source,
            place,
            row["new_memory"],
            drop_missing_fields(updated_at=row.get("updated_at")),
            id=id_,
            author=row.get("actor_id") or row.get("role"),
            timestamp=begun,
        )


def _chroma_rows(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the documents of all collections of a folder of Chroma's."""
    names = {row["id"]: row["name"] for row in file.rows("collections")}
    named = {
        row["id"]: names.get(row["collection"], "") for row in file.rows("segments")
    }
    values = file.rows("embedding_metadata", ["id"])
    by_row = groupby(values, itemgetter("id"))
    at, group = next(by_row, (None, iter(())))
    for place, row in _read_table_rows(source, file, table, "id"):
        while at is not None and at < row["id"]:
            at, group = next(by_row, (None, iter(())))
        metadata = {}
        if at == row["id"]:
            metadata = {each["key"]: _chroma_metadata_value(each) for each in group}
        document = metadata.pop("chroma:document", None)
        collection = named.get(row["segment_id"], "")
        metadata["collection"] = collection
        id_ = f"{collection}:{row['embedding_id']}"
        if len(id_.encode()) > 512:
            id_ = make_memory_id(collection, row["embedding_id"])
        source.tally.fields["embedding"] += 1
        created = row.get("created_at")
        yield from _read_chroma_entry(source, place, id_, document, metadata, created)


def _chroma_metadata_value(row: dict[str, Any]) -> object:
    if row.get("bool_value") is not None:
        return bool(row["bool_value"])
    values = (row[name] for name in ("string_value", "int_value", "float_value"))
    return next((value for value in values if value is not None), None)


_Reader = Callable[[Source, ForeignFile, str], Iterator[Record]]

_TABLES: dict[str, tuple[str, str, _Reader]] = {
    "chroma": ("embeddings", "id segment_id embedding_id", _chroma_rows),
    "adk": ("events", f"{_EVENTS} event_data", _adk_sessions),
    "adk older": ("events", f"{_EVENTS} author content", _adk_sessions),
    "adk memory": ("memory_events", _OF_MEMORY, _adk_memory_rows),
    "openai-agents": ("agent_messages", "id session_id message_data", _openai_messages),
    "langgraph": ("store", "prefix key value created_at updated_at", _langgraph_items),
    "langchain": ("message_store", "id session_id message", _langchain_rows),
    "mem0": ("history", "memory_id new_memory event", _mem0_history),
}
"""The formats by name: a table, its columns, its reader. The first that fits counts."""

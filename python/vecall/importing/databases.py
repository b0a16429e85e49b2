"""Readers of the SQLite files of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from vecall.importing.chats import (
    chroma_entry,
    langchain_message,
    require_mapping,
    turn,
)
from vecall.importing.sources import Record, Source, expected, given, seconds_of
from vecall.store import ForeignFile, memory_id

_ROW = 200
_EVENTS = "id app_name user_id session_id timestamp"
_OF_MEMORY = f"{_EVENTS.removeprefix('id ')} event_id author content_json"


def format_of_tables(file: ForeignFile) -> str | None:
    """Return the name of the format that a file's tables are of; None for no known."""
    for name, (table, columns, _) in _TABLES.items():
        if file.has(table, columns):
            return name.partition(" ")[0]
    return None


def database(source: Source, wanted: str) -> Iterator[Record]:
    """Read a SQLite file of one format; the error says that it has no such tables."""
    with ForeignFile(source.need_path()) as file:
        for name, (table, columns, reader) in _TABLES.items():
            if name.partition(" ")[0] == wanted and file.has(table, columns):
                source.total = max(file.count(table), 1)
                yield from reader(source, file, table)
                return
        expected(source.name, f"the tables of a {wanted} database")


def _rows(
    source: Source, file: ForeignFile, table: str, *order: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a table with their places; count them as progress."""
    for row in file.rows(table, order):
        source.rows += 1
        yield f"{table} row {source.rows}", row


def _adk(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the sessions of google-adk, each as a whole: an event may rewind others."""
    for name, label in (("app_states", "app state"), ("user_states", "user state")):
        if name in file.columns:
            source.tally.fields[label] += file.count(name)
    for session in file.rows("sessions"):
        source.tally.fields["state"] += session.get("state") not in (None, "", "{}")
    owner = itemgetter("app_name", "user_id", "session_id")
    order = ("app_name", "user_id", "session_id", "timestamp")
    rows = _rows(source, file, table, *order)
    for (app, user, session_id), group in groupby(rows, lambda each: owner(each[1])):
        events = []
        first, size = "", 0
        for place, row in group:
            first = first or place
            events.append(_adk_event(source, row, place))
            size += _ROW + len(str(row.get("event_data") or row.get("content") or ""))
        names = {"app_name": app, "user_id": user, "id": session_id}
        yield Record(f"{first} and after it", {**names, "events": events}, size)


def _adk_event(source: Source, row: dict[str, Any], place: str) -> dict[str, Any]:
    if "event_data" in row:
        event = require_mapping(row["event_data"], place)
        source.tally.rest(event, _ADK_KNOWN)
        stamp = event.get("timestamp", row["timestamp"])
        return {**event, "id": row["id"], "timestamp": seconds_of(stamp, place)}
    # The older schema: a column for each field. Its actions are a pickle, which runs
    # code when it is read.
    if row.get("actions"):
        source.tally.fields["actions"] += 1
    event = given(
        id=row["id"],
        author=row.get("author"),
        timestamp=seconds_of(row["timestamp"], place),
        branch=row.get("branch"),
        partial=bool(row.get("partial")) or None,
        invocation_id=row.get("invocation_id"),
    )
    for name in ("content", "custom_metadata", "input_transcription", *_OLDER):
        if row.get(name):
            event[name] = require_mapping(row[name], place)
    source.tally.rest(row, (*event, *_ADK_COLUMNS))
    return event


_OLDER = ("output_transcription",)
_ADK_COLUMNS = "app_name user_id session_id actions interrupted turn_complete".split()
_ADK_KNOWN = (
    "id author timestamp content partial actions invocationId invocation_id "
    "turnComplete turn_complete branch customMetadata custom_metadata "
    "inputTranscription outputTranscription input_transcription output_transcription"
).split()


def _adk_memory(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    order = ("app_name", "user_id", "session_id", "timestamp")
    for place, row in _rows(source, file, table, *order):
        record = turn(
            place,
            session=row["session_id"],
            event=row["event_id"],
            role=None,
            content=require_mapping(row["content_json"], place),
            timestamp=row["timestamp"],
        )
        names = {name: row[name] for name in ("app_name", "user_id", "author")}
        yield record._replace(item={**record.item, **names})


def _openai_agents(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    for place, row in _rows(source, file, table, "session_id", "id"):
        message = require_mapping(row["message_data"], place)
        source.tally.rest(message, ("role", "content", "type", "id", "status"))
        record = turn(
            place,
            session=row["session_id"],
            event=str(row["id"]),
            role=message.get("role"),
            content=message.get("content"),
            timestamp=row.get("created_at"),
            message_id=message.get("id"),
        )
        record.item["type"] = message.get("type")
        yield record


def _langchain(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    for place, row in _rows(source, file, table, "session_id", "id"):
        message = require_mapping(row["message"], place)
        session, id_ = str(row["session_id"]), str(row["id"])
        yield langchain_message(source, message, place, session, "", id_)


def _langgraph(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the items of LangGraph's store: namespace, key, value, times and TTL."""
    vectors = file.count("store_vectors") if "store_vectors" in file.columns else 0
    if vectors:
        source.tally.fields["embedding"] += vectors
    for place, row in _rows(source, file, table):
        updated = seconds_of(row["updated_at"], place)
        item = given(
            created_at=seconds_of(row["created_at"], place),
            updated_at=updated,
            expires_at=seconds_of(row.get("expires_at"), place),
        )
        if "expires_at" in item and row.get("ttl_minutes"):
            item["ttl"] = 60.0 * row["ttl_minutes"]
        elif "expires_at" in item:
            source.tally.fields["expires_at"] += 1
            del item["expires_at"]
        value = require_mapping(row["value"], place)
        path = row["prefix"].split(".") if row["prefix"] else []
        item |= {"ns": path, "key": row["key"], "value": value}
        yield Record(place, {"item": item}, _ROW + len(str(row["value"])))


def _mem0(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read what each memory of mem0 said last; a deleted one is left out."""
    rows = _rows(source, file, table, "memory_id")
    if "messages" in file.columns:
        source.tally.fields["messages"] += file.count("messages")
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
        text = row["new_memory"]
        if not isinstance(text, str) or not text.strip():
            source.tally.left_out["no_text"] += 1
            continue
        item = {
            "id": id_,
            "text": text,
            "author": row.get("actor_id") or row.get("role"),
            "timestamp": seconds_of(begun, place),
            "custom_metadata": given(updated_at=row.get("updated_at")),
        }
        yield Record(place, item, _ROW + len(text))


def _chroma(source: Source, file: ForeignFile, table: str) -> Iterator[Record]:
    """Read the documents of all collections of a folder of Chroma's."""
    names = {row["id"]: row["name"] for row in file.rows("collections")}
    named = {
        row["id"]: names.get(row["collection"], "") for row in file.rows("segments")
    }
    values = file.rows("embedding_metadata", ["id"])
    by_row = groupby(values, itemgetter("id"))
    at, group = next(by_row, (None, iter(())))
    for place, row in _rows(source, file, table, "id"):
        while at is not None and at < row["id"]:
            at, group = next(by_row, (None, iter(())))
        metadata = {}
        if at == row["id"]:
            metadata = {each["key"]: _chroma_value(each) for each in group}
        document = metadata.pop("chroma:document", None)
        collection = named.get(row["segment_id"], "")
        metadata |= {"collection": collection}
        id_ = f"{collection}:{row['embedding_id']}"
        if len(id_.encode()) > 512:
            id_ = memory_id(collection, row["embedding_id"])
        record = chroma_entry(
            source, place, id_, document, metadata, row.get("created_at")
        )
        source.tally.fields["embedding"] += 1
        if record is not None:
            yield record


def _chroma_value(row: dict[str, Any]) -> object:
    if row.get("bool_value") is not None:
        return bool(row["bool_value"])
    values = (row[name] for name in ("string_value", "int_value", "float_value"))
    return next((value for value in values if value is not None), None)


_Reader = Callable[[Source, ForeignFile, str], Iterator[Record]]

_TABLES: dict[str, tuple[str, str, _Reader]] = {
    "chroma": ("embeddings", "id segment_id embedding_id", _chroma),
    "adk": ("events", f"{_EVENTS} event_data", _adk),
    "adk older": ("events", f"{_EVENTS} author content", _adk),
    "adk memory": ("memory_events", _OF_MEMORY, _adk_memory),
    "openai-agents": ("agent_messages", "id session_id message_data", _openai_agents),
    "langgraph": ("store", "prefix key value created_at updated_at", _langgraph),
    "langchain": ("message_store", "id session_id message", _langchain),
    "mem0": ("history", "memory_id new_memory event", _mem0),
}
"""The formats by name: a table, its columns, its reader. The first that fits counts."""

"""The lines of an export as they are read back: every value checked, none believed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, get_args

import numpy as np

from vecall import store
from vecall.clock import to_seconds, ttl_seconds
from vecall.errors import InvalidArgumentError
from vecall.ingest.item_arguments import checked_place, stored_item_value, vectors_of
from vecall.ingest.passages import split_into_texts
from vecall.limits import Limits
from vecall.scalars import is_utf8, usable_vectors
from vecall.types import check_share
from vecall.validation import check_name

_MOST = 2**31 - 1  # of a position or a count
_NEAR = 2.0**-20  # between the positions of passages, as between those of turns


class LineReader:
    """Reads the lines of one export."""

    def __init__(self, limits: Limits, now: float) -> None:
        """Begin at the header; nothing was written later than `now`, in seconds."""
        self._limits = limits
        self._now = now
        self._dim: int | None = None
        self._kinds: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "part": self._read_owner_line,
            "mem": self._read_memory_line,
            "tomb": self._read_tombstone_line,
            "hist": self._read_revision_line,
            "replaced": self._read_replacement_line,
            "trig": self._read_trigger_line,
            "told": self._read_turn_line,
            "item": self._read_item_line,
        }

    def header(self, line: Mapping[str, Any]) -> store.EmbeddingModel | None:
        """Read the header; return the model of the vectors."""
        model = store.model_of_header(line)
        self._dim = None if model is None else model.dim
        return model

    def read_line(self, item: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Read any other line; return its kind and values."""
        # A memory whose text is too long for this service is several: its passages.
        kind, values = next(iter(item.items()), ("", None))
        if len(item) != 1 or not isinstance(values, dict) or kind not in self._kinds:
            raise InvalidArgumentError("expected a line of an export")
        read = self._kinds[kind](values)
        return kind, self._passages_of_memory(read) if kind == "mem" else [read]

    def _read_owner_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "app": check_name(values.get("app"), "part.app", self._limits),
            "user": check_name(values.get("user"), "part.user", self._limits),
            "created_at": self._past_time(values, "created_at"),
        }

    def _read_memory_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        text = _imported_string(values, "text")
        if not text.strip():
            raise InvalidArgumentError("mem.text: must not be blank")
        if values.get("state") not in ("live", "archived", "quarantined"):
            msg = "mem.state: must be live, archived or quarantined"
            raise InvalidArgumentError(msg)
        read: dict[str, Any] = {
            "text": text,
            "state": values["state"],
            "created_at": self._past_time(values, "created_at"),
            "updated_at": self._past_time(values, "updated_at"),
            "id": check_name(values.get("id"), "mem.id", self._limits),
        }
        for name in ("session", "event"):
            if values.get(name) is not None:
                read[name] = check_name(values[name], f"mem.{name}", self._limits)
        for name in ("author", "kind", "source", "trust", "supersedes"):
            read[name] = _imported_optional(values, name, _imported_string)
        for name in ("ts", "expires_at", "valid_until"):
            read[name] = _imported_optional(values, name, _imported_time)
        read["last_used"] = _imported_optional(values, "last_used", self._past_time)
        read["pos"] = _imported_optional(values, "pos", _imported_position)
        read["uses"] = _imported_optional(values, "uses", _imported_count)
        for name in ("content", "meta"):
            read[name] = _imported_optional(values, name, _object)
        if values.get("importance") is not None:
            read["importance"] = check_share(values["importance"], "mem.importance")
        if values.get("vec") is not None:
            read["vec"] = self._read_vector(values["vec"])
        return {name: value for name, value in read.items() if value is not None}

    def _passages_of_memory(self, memory: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a memory, or its passages, which have no vectors yet."""
        texts = split_into_texts(memory["text"], self._limits)
        if len(texts) == 1:
            return [memory]
        of_whole = ("content", "vec", "supersedes")
        shared = {name: memory[name] for name in memory if name not in of_whole}
        found = []
        for number, text in enumerate(texts, 1):
            own: dict[str, Any] = {**shared, "text": text}
            if number > 1:
                own["id"] = store.passage_id(memory["id"], number)
            if "pos" in memory:
                own["pos"] = store.stored_integer(memory["pos"] + (number - 1) * _NEAR)
            found.append(own)
        if "supersedes" in memory:
            found[0]["supersedes"] = memory["supersedes"]
        return found

    def _read_item_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        ns, key = checked_place(
            (values.get("ns"), values.get("key")), "item", self._limits
        )
        if "value" not in values:
            values = {**values, "value": None}  # null is left out of an export
        value = stored_item_value(values["value"], "item.value", self._limits)
        read: dict[str, Any] = {
            "ns": ns,
            "key": key,
            "value": value.text,
            "pieces": value.pieces,
            "created_at": self._past_time(values, "created_at"),
            "updated_at": self._past_time(values, "updated_at"),
        }
        if (values.get("ttl") is None) is not (values.get("expires_at") is None):
            msg = "item: expected both of ttl and expires_at, or none"
            raise InvalidArgumentError(msg)
        if values.get("ttl") is not None:
            read["ttl"] = ttl_seconds(values["ttl"])
            read["expires_at"] = _imported_time(values, "expires_at")
        if values.get("vecs") is not None:
            dim = values.get("dim")
            matrix = _read_item_vectors(values["vecs"], dim)
            read |= {"vecs": matrix, "dim": dim}
            read["embedder"] = _imported_optional(values, "embedder", _imported_string)
        return read

    def _past_time(self, values: Mapping[str, Any], name: str) -> float:
        return min(_imported_time(values, name), self._now)

    def _read_vector(self, given: object) -> bytes:
        data = _decode_base64_field(given)
        if self._dim is None or len(data) != 4 * self._dim:
            msg = "mem.vec: expected base64 of as many float32 as the header says"
            raise InvalidArgumentError(msg)
        if not usable_vectors(np.frombuffer(data, "<f4").reshape(1, -1))[0]:
            raise InvalidArgumentError("mem.vec: must be finite and not zero")
        return data

    def _read_tombstone_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        id_ = self._name_of_deleted(values, "tomb", "id")
        why = values.get("why")
        if why is not None:
            why = _choice_of(values, "why", get_args(store.Why))
        return {"id": id_, "at": self._past_time(values, "at"), "why": why}

    def _read_revision_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": check_name(values.get("id"), "hist.id", self._limits),
            "at": self._past_time(values, "at"),
            "op": _choice_of(values, "op", ("update", "edit")),
            "old": _imported_optional(values, "old", _past_fields) or "{}",
            "expires_at": _imported_optional(values, "expires_at", _imported_time),
        }

    def _read_replacement_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": check_name(values.get("id"), "replaced.id", self._limits),
            "by": _imported_optional(values, "by", _imported_string),
            "why": _choice_of(values, "why", get_args(store.Reason)),
            "at": self._past_time(values, "at"),
        }

    def _read_trigger_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "session": check_name(values.get("session"), "trig.session", self._limits),
            "kind": _choice_of(values, "kind", ("make",)),
            "due_at": _imported_optional(values, "due_at", _imported_time),
            "state": _imported_optional(values, "state", _checked_tries_json),
        }

    def _read_turn_line(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "session": self._name_of_deleted(values, "told", "session"),
            "id": self._name_of_deleted(values, "told", "id"),
            "at": self._past_time(values, "at"),
            "pos": _imported_optional(values, "pos", _imported_count),
            "event": _imported_optional(values, "event", _checked_turn_json),
        }

    def _name_of_deleted(self, values: Mapping[str, Any], kind: str, name: str) -> str:
        """A name, or what a purge has put in its place."""
        value = values.get(name)
        if (
            isinstance(value, str)
            and store.is_hidden_id(value)
            and store.is_well_formed_digest(value)
        ):
            return value
        return check_name(value, f"{kind}.{name}", self._limits)


def _imported_optional(
    values: Mapping[str, Any], name: str, take: Callable[[Mapping[str, Any], str], Any]
) -> Any:
    return None if values.get(name) is None else take(values, name)


def _imported_string(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not is_utf8(value):
        raise InvalidArgumentError(f"{name}: expected a string without lone surrogates")
    return value


def _imported_time(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentError(f"{name}: expected seconds since 1970")
    return to_seconds(value, name)


def _imported_count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise InvalidArgumentError(f"{name}: expected an integer from 0 to {_MOST}")
    return value


def _imported_position(values: Mapping[str, Any], name: str) -> float:
    value: Any = values.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -_MOST <= value <= _MOST:
        msg = f"{name}: expected a number from {-_MOST} to {_MOST}"
        raise InvalidArgumentError(msg)
    return store.stored_integer(value)


def _json_reader(
    check: Callable[[dict[str, Any], str], object],
) -> Callable[[Mapping[str, Any], str], str]:
    """Return a reader of the text of a JSON object, which passes a check."""

    def read(values: Mapping[str, Any], name: str) -> str:
        text = _imported_string(values, name)
        check(store.parse_given_object(text, name), name)
        return text

    return read


_object = _json_reader(lambda _value, _name: None)
_past_fields = _json_reader(store.check_revision_values)
_checked_turn_json = _json_reader(store.check_buffered_turn)
_checked_tries_json = _json_reader(lambda value, _name: _imported_count(value, "tries"))


def _choice_of(values: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _imported_string(values, name)
    if value not in allowed:
        raise InvalidArgumentError(f"{name}: must be one of {', '.join(allowed)}")
    return value


def _decode_base64_field(given: object) -> bytes:
    """Return the bytes of a text in base64; none of anything else."""
    try:
        return base64.b64decode(given, validate=True)  # type: ignore[arg-type]
    except (binascii.Error, ValueError, TypeError):
        return b""


def _read_item_vectors(given: object, dim: object) -> bytes:
    data = _decode_base64_field(given)
    if type(dim) is not int or dim < 1 or not data or len(data) % (4 * dim):
        msg = "item.vecs: expected base64 of vectors of dim float32 each"
        raise InvalidArgumentError(msg)
    matrix = np.frombuffer(data, "<f4").reshape(-1, dim)
    checked = vectors_of(matrix, "item.vecs")
    assert checked is not None
    return checked.tobytes()

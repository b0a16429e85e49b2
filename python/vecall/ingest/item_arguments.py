"""Checks the arguments of item operations, and turns them into records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vecall import errors, store
from vecall.clock import ttl_seconds
from vecall.concurrency.time_slices import Paced
from vecall.limits import Limits
from vecall.scalars import exact, is_utf8, odd_json_value, usable_vectors
from vecall.store import ItemPut
from vecall.types import Drop, Put

MOST_OPERATIONS = 10_000
MOST_FOUND = 10_000
_MAX_DIM = 65_536
_COST = 2  # the fewest characters of a value in JSON, with a comma
_MAX_VERSION = (1 << 32) - 1


class ItemBatch(NamedTuple):
    """Checked operations, and the dimension of their vectors; 0 without vectors."""

    operations: list[ItemPut | store.ItemDrop]
    dim: int


class TooLongError(Exception):
    """The operations are too many, or their values too large, for an event loop."""


def checked_item_list(given: object, name: str, of: str) -> list[Any]:
    """Return a copy of a sequence of at most `MOST_OPERATIONS`."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise errors.InvalidTypeError(f"{name}: expected a sequence of {of}")
    if len(given) > MOST_OPERATIONS:
        raise errors.LimitExceededError(f"{name}: at most {MOST_OPERATIONS}")
    return list(given)


def checked_item_batch(
    operations: Sequence[object],
    limits: Limits,
    paced: Paced[object] = iter,
    most: float = math.inf,
) -> ItemBatch:
    """Return the records of puts and drops."""
    # It raises `TooLongError` if the values have more characters than `most`, about.
    records: list[ItemPut | store.ItemDrop] = []
    dim = 0
    left = most
    for at, each in enumerate(paced(operations)):
        name = f"operations[{at}]"
        if not isinstance(each, Put | Drop):
            raise errors.InvalidTypeError(f"{name}: expected a Put or a Drop")
        place = checked_place((each.namespace, each.key), name, limits)
        version = each.if_version
        if version is not None:
            version = exact(version)
            if type(version) is not int or not 0 <= version <= _MAX_VERSION:
                raise errors.InvalidArgumentError(
                    f"{name}.if_version: expected None or a version, an integer from 0"
                )
        if isinstance(each, Drop):
            records.append(store.ItemDrop(*place, version))
            continue
        vectors = each.vectors
        if vectors is not None:
            vectors = vectors_of(vectors, f"{name}.vectors")
        if vectors is not None and dim not in (0, vectors.shape[1]):
            msg = f"{name}.vectors: expected {dim} numbers each, as before"
            raise errors.DimensionError(msg)
        dim = dim if vectors is None else vectors.shape[1]
        ttl = None if each.ttl is None else ttl_seconds(each.ttl)
        value = stored_item_value(each.value, f"{name}.value", limits, left)
        left -= len(value.text)
        data = b"" if vectors is None else vectors.tobytes()
        records.append(ItemPut(*place, value.text, data, ttl, version, value.pieces))
    return ItemBatch(records, dim)


def check_item_embedder(name: object) -> None:
    """Check the name of the embedder of items."""
    if not isinstance(name, str):
        raise errors.InvalidTypeError("embedder: expected the name of an embedder")
    if not is_utf8(name):
        raise errors.InvalidArgumentError("embedder: must not have a lone surrogate")


def checked_item_places(
    keys: Sequence[object], limits: Limits, paced: Paced[object] = iter
) -> list[tuple[str, str]]:
    """Return the stored texts of pairs of namespace and key."""
    return [
        checked_place(each, f"keys[{at}]", limits)
        for at, each in enumerate(paced(keys))
    ]


def checked_item_count(value: object, name: str, least: int) -> int:
    """Return a number of items to find or to skip."""
    if type(value) is not int or not least <= value <= MOST_FOUND:
        msg = f"{name}: must be an integer from {least} to {MOST_FOUND}"
        raise errors.InvalidArgumentError(msg)
    return value


def checked_place(pair: object, name: str, limits: Limits) -> tuple[str, str]:
    """Return the stored text of a namespace, and a key."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise errors.InvalidTypeError(f"{name}: expected a pair (namespace, key)")
    labels = checked_namespace(pair[0], f"{name}.namespace", limits)
    key = _checked_namespace_label(pair[1], f"{name}.key", limits.max_item_name_bytes)
    return store.encode_namespace(labels), key


def checked_namespace(labels: object, name: str, limits: Limits) -> tuple[str, ...]:
    """Return the labels of a namespace."""
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        msg = f"{name}: expected a sequence of labels, such as a tuple of strings"
        raise errors.InvalidTypeError(msg)
    most = limits.max_item_name_bytes
    if type(labels) is tuple and set(map(type, labels)) == {str}:
        return _checked_labels(labels, name, most)
    return _checked_labels_uncached(labels, name, most)


def _checked_labels_uncached(
    labels: Sequence[object], name: str, most: int
) -> tuple[str, ...]:
    checked = tuple([_checked_namespace_label(label, name, most) for label in labels])
    if "".join(checked).isascii():
        size = sum(map(len, checked)) + len(checked)
    else:
        size = sum(len(label.encode()) + 1 for label in checked)
    if size > most:
        raise errors.LimitExceededError(f"{name}: at most max_item_name_bytes = {most}")
    return checked


_checked_labels = lru_cache(maxsize=1024)(_checked_labels_uncached)
"""As `_checked_labels_uncached`; most calls name one that was checked before."""


def _checked_namespace_label(label: object, name: str, most: int) -> str:
    if type(label) is not str:
        label = exact(label)
        if type(label) is not str:
            raise errors.InvalidTypeError(f"{name}: expected strings")
    try:
        size = len(label) if label.isascii() else len(label.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\0" in label:
        msg = f"{name}: must not be empty, nor have NUL or a lone surrogate"
        raise errors.InvalidArgumentError(msg)
    if size > most:
        raise errors.LimitExceededError(f"{name}: at most max_item_name_bytes = {most}")
    return label


def stored_item_value(
    value: object, name: str, limits: Limits, most: float = math.inf
) -> store.StoredValue:
    """Return a value as it is stored, with the order of its keys."""
    # It raises `TooLongError` if it has more characters than `most`, about.
    rule = (
        f"{name}: expected a JSON value: None, booleans, finite numbers, strings, "
        "lists, and mappings with string keys"
    )
    walk = _Walk()
    walk.most = min(most, limits.max_item_bytes + _COST)
    try:
        copy = walk.copy_plain_value(value)
        if walk.size <= store.LARGE:
            stored = store.StoredValue(store.encode_json_value(copy))
            least = min(limits.max_item_bytes, limits.max_item_outline_bytes)
            if 4 * len(stored.text) <= least:  # also in UTF-8
                return stored
        else:
            stored = store.value_in_pieces(copy)
    except TooLongError:
        if walk.most == most:
            raise
        raise _item_too_large(name, "max_item_bytes", limits.max_item_bytes) from None
    except (TypeError, ValueError, RecursionError, RuntimeError):
        raise errors.InvalidTypeError(f"{rule}; {odd_json_value(value)}") from None
    if stored.nbytes > limits.max_item_bytes:
        raise _item_too_large(name, "max_item_bytes", limits.max_item_bytes)
    if stored.outline_bytes > limits.max_item_outline_bytes:
        most = limits.max_item_outline_bytes
        raise _item_too_large(name, "max_item_outline_bytes", most)
    return stored


def _item_too_large(name: str, limit: str, most: float) -> errors.LimitExceededError:
    return errors.LimitExceededError(f"{name}: at most {limit} = {most} as JSON")


class _Walk:
    """Copies a JSON value; `size` is a lower bound of the characters so far."""

    most: float
    size = 0

    def copy_plain_value(self, value: Any) -> Any:
        """Return a JSON value with plain dicts and lists."""
        kind = type(value)
        self.size += _COST + (len(value) if isinstance(value, str) else 0)
        if self.size > self.most:
            raise TooLongError
        if kind is str or kind is int or kind is float:
            return value
        if kind is dict or isinstance(value, Mapping):
            found = {}
            for key, each in value.items():
                if not isinstance(key, str):
                    raise TypeError
                self.size += len(key) + _COST
                found[key] = self.copy_plain_value(each)
            return found
        if isinstance(value, list | tuple):
            return [self.copy_plain_value(each) for each in value]
        return value


def vectors_of(given: object, name: str) -> NDArray[np.float32] | None:
    """Return the vectors of one item as float32 (n, dim); None for none."""
    if isinstance(given, list | tuple) and not given:
        return None
    matrix = checked_item_vectors(given, name)
    if len(matrix) > store.MOST_VECTORS:
        raise errors.LimitExceededError(
            f"{name}: at most {store.MOST_VECTORS} of one item"
        )
    return matrix if len(matrix) else None


def checked_item_vectors(given: object, name: str) -> NDArray[np.float32]:
    """Return vectors as float32 (n, dim)."""
    try:
        matrix = np.asarray(given)
        if matrix.dtype.kind not in "fiu" or matrix.ndim not in (1, 2):
            raise TypeError
        with np.errstate(over="ignore"):
            matrix = np.ascontiguousarray(np.atleast_2d(matrix), np.float32)
    except (TypeError, ValueError):
        raise errors.InvalidTypeError(
            f"{name}: expected numbers (n, dim) or (dim,)"
        ) from None
    if not 1 <= matrix.shape[1] <= _MAX_DIM:
        raise errors.InvalidTypeError(f"{name}: expected 1 to {_MAX_DIM} numbers each")
    if not usable_vectors(matrix).all():
        raise errors.InvalidArgumentError(f"{name}: must be finite, and not zero")
    return matrix

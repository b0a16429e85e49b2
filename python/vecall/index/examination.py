"""Loads every user as a search does, and says what a search would meet."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vecall._core import Engine
from vecall.errors import VecallError
from vecall.index.item_index import ItemOwner, ItemSearch
from vecall.index.loaded import LoadedPartition
from vecall.index.partition_loader import PartitionLoader
from vecall.index.row_cache import RowCache
from vecall.store import (
    HIDDEN_APP,
    Finding,
    PartitionNames,
    Storage,
    examine,
    examine_database,
    open_storage,
)

_AT_ONCE = 1_000
_ABOUT = "loading"


def examine_storage(path: Path | str) -> list[Finding]:
    """Check a storage, and whether every user of it can be searched; change nothing.

    Args:
        path: A file, or the URL of a database.

    Raises:
        ConfigError: The file does not exist, or the database refuses access.
        StorageError: The database cannot be reached.
    """
    found = examine_database(path) if isinstance(path, str) else examine(path)
    is_newest = any(each.about == "schema" and each.level == "ok" for each in found)
    return [*found, _examine_loading(path)] if is_newest else found


def _examine_loading(path: Path | str) -> Finding:
    log = logging.getLogger("vecall")
    was_disabled, log.disabled = log.disabled, True  # it says below what was found
    try:
        storage = open_storage(path, "full", read_only=True)
        try:
            return _loaded(storage)
        finally:
            storage.close()
    except VecallError as error:
        message = f"not examined: {str(error).removeprefix('path: ')}"
        return Finding("error", _ABOUT, message)
    finally:
        log.disabled = was_disabled


def _loaded(storage: Storage) -> Finding:
    with storage.read() as reads:
        model = reads.active_model()
    engine = Engine(0 if model is None else model.dim)
    number = None if model is None else model.id
    loader = PartitionLoader(
        storage, engine, RowCache(0), None, number, in_memory=False
    )
    users = unreadable = items_refused = 0
    for names in _partitions(storage):
        if names.app == HIDDEN_APP:  # deleted, and its name as well
            continue
        users += 1
        key = (names.app, names.user)
        try:
            loader.fill(key, LoadedPartition(names.part, 0), from_rows=True)
            items_refused += _refused_items(storage, key)
        except VecallError:
            unreadable += 1
        engine.drop(key)
    if unreadable:
        message = f"{unreadable} of {users} users cannot be searched"
        return Finding("error", _ABOUT, message)
    refused = loader.refused + items_refused
    if refused:
        message = (
            f"{refused} memories or items have vectors without a direction; only words "
            "and lists find them: write them again"
        )
        return Finding("warning", _ABOUT, message)
    return Finding("ok", _ABOUT, f"{users} users can be searched")


def _partitions(storage: Storage) -> Iterator[PartitionNames]:
    after = 0
    while True:
        with storage.read() as reads:
            page = reads.partitions_after(after, _AT_ONCE)
        yield from page
        if len(page) < _AT_ONCE:
            return
        after = page[-1].part


def _refused_items(storage: Storage, key: tuple[str, str]) -> int:
    """Search the items of a user once; return how many the engine refuses."""
    owner = ItemOwner()
    search = ItemSearch(owner, 0)
    with storage.read(*key) as reads:
        state = reads.item_state(*key)
        if state is None or not state.dim:
            return 0
        query = np.zeros(state.dim, np.float32)
        query[0] = 1.0
        names = search.names(reads, state, "", None)
        search.nearest(reads, state, names, query, 1, lambda _: True)
    return owner.refused

"""What a storage holds, as plain values, by the storage protocol alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

from vecall.store import AddMemories, Change, Draft, RowWithVector, Storage, Version

APP = "app"
WAIT_S = 30.0


def write(storage: Storage, job: Any) -> Change:
    """Write one job and wait for its acknowledgement."""
    return storage.submit(job).result(WAIT_S)


def add(storage: Storage, user: str, *ids: str, text: str = "says {}") -> Change:
    """Add a fact for each id; its text names it."""
    drafts = [Draft(id_, text.format(id_)) for id_ in ids]
    return write(storage, AddMemories(APP, user, drafts))


class State(NamedTuple):
    """One state of one user.

    Attributes:
        version: The version; None where there is no such user.
        live: The live rows by number.
    """

    version: Version | None
    live: dict[int, RowWithVector]

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the live memories by id."""
        return {entry.row.id: entry.row.text for entry in self.live.values()}


def state_of(storage: Storage, user: str) -> State:
    """Read one state of a user."""
    with storage.read() as reads:
        version = reads.version(APP, user)
        if version is None:
            reads.require_gone(APP, user)
            return State(None, {})
        known = reads.partition_state(version[0], APP, user)
        assert known is not None
        with closing(reads.load_partition(version[0])) as rows:
            live = {entry.row.rid: entry for entry in rows}
        assert (known.seq, known.live) == (version[1], len(live))
        assert list(live) == sorted(live)
        return State(version, live)


def texts_of(storage: Storage, user: str) -> dict[str, str]:
    """The texts of a user's live memories by id."""
    return state_of(storage, user).texts


def replayed(storage: Storage, user: str, old: State) -> State | None:
    """An earlier state with what `changed_since` names read again.

    None where the log of changes does not reach back, or the partition is another one.
    """
    assert old.version is not None
    with storage.read() as reads:
        version = reads.version(APP, user)
        if version is None or version[0] != old.version[0]:
            return None
        if version == old.version:
            return old
        changed = reads.changed_since(*old.version)
        if changed is None:
            return None
        assert not set(changed.written) & set(changed.marked)
        rids = [*changed.written, *changed.marked]
        now = {entry.row.rid: entry for entry in reads.load_rows(rids)}
    for rid in changed.marked:
        if rid in now and rid in old.live:
            assert unused(now[rid]) == unused(old.live[rid])
    live = {rid: entry for rid, entry in old.live.items() if rid not in set(rids)}
    return State(version, {**live, **now})


def unused(entry: RowWithVector) -> RowWithVector:
    """A row without how often and when it was used."""
    return entry._replace(row=entry.row._replace(uses=None, last_used=None))


def applied(old: State, change: Change) -> dict[int, RowWithVector]:
    """The live rows of a state once a change was applied as the engine does."""
    live = dict(old.live)
    for rid in change.removed:
        live.pop(rid, None)
    live |= {entry.row.rid: entry for entry in change.stored}
    for row in change.marked:
        live[row.rid] = live[row.rid]._replace(row=row)
    return live


def drafts(*ids: str, **fields: Any) -> Sequence[Draft]:
    """Drafts that say their ids."""
    return [Draft(id_, f"says {id_}", **fields) for id_ in ids]

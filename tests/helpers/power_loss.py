"""What is left of a folder after a crash, from a log of all that was done to it.

storage_shim.c says what is in the log. A `Disk` replays it up to a point and writes the
files as one of the `MODELS` of a crash leaves them:

- kill: the process ended, all that it had written is there;
- dropped: the power failed, nothing is left of what was not synced, neither of files
  nor of the names in their folder;
- sectors: each sector of 512 bytes that was not synced is old or new by chance, as is
  each change of size; names are kept up to a point in time;
- junk: as sectors, and of each tenth new piece of a sector the bytes are random.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MODELS = ("kill", "dropped", "sectors", "junk")
SECTOR = 512
_JUNK_SHARE = 0.1
_SHM_BYTES = 32_768

WRITE, SYNC, SYNCED, TRUNCATE, CREATE, UNLINK, RENAME, MARK, ALLOCATE = range(1, 10)
# What the shim can make fail, in its order.
FAULTS = "open read write short sync truncate unlink rename allocate".split()


class ShimError(Exception):
    """The shim cannot be had here; says why."""


def build_shim(folder: Path) -> Path:
    """Compile the shim; raises ShimError where that cannot be."""
    if not sys.platform.startswith("linux"):
        msg = "needs LD_PRELOAD of Linux"
        raise ShimError(msg)
    compiler = shutil.which("cc")
    if compiler is None:
        msg = "needs a C compiler named cc"
        raise ShimError(msg)
    library = folder / "storage_shim.so"
    source = Path(__file__).with_name("storage_shim.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source]
    done = subprocess.run(
        [*command, "-ldl", "-lpthread"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        msg = f"the shim does not compile here: {done.stderr[:500]}"
        raise ShimError(msg)
    return library


def shimmed(
    library: Path, folder: Path, log: Path | None = None, *, skip_sync: bool = True
) -> dict[str, str]:
    """The environment of a process whose files in `folder` go through the shim."""
    before = os.environ.get("LD_PRELOAD", "")  # a sanitizer has to stay the first
    chosen = {
        "LD_PRELOAD": f"{before} {library}".strip(),
        "STORAGE_SHIM_PREFIX": str(folder.resolve()),
    }
    if log is not None:
        chosen["STORAGE_SHIM_LOG"] = str(log)
    if skip_sync:
        chosen["STORAGE_SHIM_SKIP_SYNC"] = "1"
    return {**os.environ, **chosen}


class Record(NamedTuple):
    kind: int
    inode: int
    offset: int  # a size where one is set, a number where something is synced
    path: str
    data: memoryview


_HEAD = struct.Struct("<IIQQQ")


def read_log(log: Path) -> list[Record]:
    data = memoryview(log.read_bytes())
    records = []
    at = 0
    while at < len(data):
        kind, path_bytes, inode, offset, size = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size + path_bytes
        path = bytes(data[at + _HEAD.size : begin]).decode()
        at = begin + size
        records.append(Record(kind, inode, offset, path, data[begin:at]))
    return records


def crash_points(records: Sequence[Record], count: int, seed: int) -> list[int]:
    """How many records to replay, sorted.

    A third of the points lies anywhere, a third beside a sync, a mark or a change of
    names, a third where a checkpoint writes into the file.
    """
    rng = random.Random(seed)
    edges = [at for at, record in enumerate(records) if record.kind != WRITE]
    others = [at for at, record in enumerate(records) if record.path[-4:] != "-wal"]
    points = [rng.randrange(len(records) + 1) for _ in range(count)]
    points[: count // 3] = rng.choices(edges, k=count // 3)
    points[-(count // 3) :] = rng.choices(others, k=count // 3)
    return sorted(min(at + rng.randrange(2), len(records)) for at in points)


class _Change(NamedTuple):
    time: int
    offset: int
    data: memoryview | None  # None: `offset` is the size to cut or to fill up to
    grow: bool = False


@dataclass(eq=False)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)


class _Renaming(NamedTuple):
    time: int
    folder: str
    name: str
    file: _File | None  # None: the name is gone
    old: str | None = None  # the name that it had before


class Disk:
    """Files and names, and which of the changes to them were synced."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self._time = 0
        self._files: dict[int, _File] = {}  # by inode
        self._names: dict[str, _File] = {}  # as the running program sees them
        self._synced_names: dict[str, _File] = {}
        self._pending_names: list[_Renaming] = []
        self._syncing: dict[int, int] = {}  # the time at which each sync began

    def replay(self, records: Sequence[Record]) -> None:
        for record in records:
            self._time += 1
            self._one(record)

    def unsynced(self) -> int:
        """How many changes of contents a power cut may take back."""
        return sum(len(file.pending) for file in set(self._names.values()))

    def _one(self, record: Record) -> None:
        kind, path = record.kind, record.path
        if kind == MARK:
            self.marks.append(bytes(record.data).decode())
        elif kind == CREATE:
            self._files[record.inode] = _File()
            self._name(path, self._files[record.inode])
        elif kind == UNLINK:
            self._name(path, None)
        elif kind == RENAME:
            self._name(bytes(record.data).decode(), self._names[path], path)
        elif kind == SYNC:
            self._syncing[record.offset] = self._time
        elif kind == SYNCED:
            self._synced(record, self._syncing.pop(record.offset))
        else:
            change = _Change(
                self._time,
                record.offset,
                record.data if kind == WRITE else None,
                kind == ALLOCATE,
            )
            self._files[record.inode].pending.append(change)

    def _name(self, path: str, file: _File | None, old: str | None = None) -> None:
        change = _Renaming(self._time, str(Path(path).parent), path, file, old)
        self._pending_names.append(change)
        _rename(self._names, change)

    def _synced(self, record: Record, since: int) -> None:
        if record.inode == 0:  # a folder
            folder = str(Path(record.path))
            later = []
            for change in self._pending_names:
                if change.time <= since and change.folder == folder:
                    _rename(self._synced_names, change)
                else:
                    later.append(change)
            self._pending_names = later
            return
        file = self._files[record.inode]
        count = bisect_right([change.time for change in file.pending], since)
        for change in file.pending[:count]:
            _apply(file.synced, change)
        del file.pending[:count]

    def write_to(self, folder: Path, model: str, rng: random.Random) -> None:
        """Write what is left into an empty folder."""
        names = dict(self._synced_names)
        kept = len(self._pending_names)
        if model != "kill":
            kept = 0 if model == "dropped" else rng.randint(0, kept)
        for change in self._pending_names[:kept]:
            _rename(names, change)
        if model == "junk" and "m.db-wal" in names:  # nothing may depend on this one
            (folder / "m.db-shm").write_bytes(rng.randbytes(_SHM_BYTES))
        for name, file in names.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_left_of(file, model, rng))


def _rename(names: dict[str, _File], change: _Renaming) -> None:
    if change.old is not None:
        names.pop(change.old, None)
    if change.file is None:
        names.pop(change.name, None)
    else:
        names[change.name] = change.file


def _apply(contents: bytearray, change: _Change) -> None:
    if change.data is not None:
        _write(contents, change.offset, change.data)
    elif len(contents) < change.offset:
        contents.extend(bytes(change.offset - len(contents)))
    elif not change.grow:
        del contents[change.offset :]


def _write(contents: bytearray, offset: int, data: memoryview | bytes) -> None:
    if len(contents) < offset:
        contents.extend(bytes(offset - len(contents)))
    contents[offset : offset + len(data)] = data


def _left_of(file: _File, model: str, rng: random.Random) -> bytearray:
    contents = bytearray(file.synced)
    if model == "dropped" or not file.pending:
        return contents
    if model == "kill":
        for change in file.pending:
            _apply(contents, change)
        return contents
    survival = rng.random()
    # A sector on the disk is as it was after some of its writes, never a mix of them.
    writes = Counter(
        at // SECTOR for change in file.pending for at, _ in _pieces(change)
    )
    left = {
        sector: count if rng.random() < survival else rng.randrange(count)
        for sector, count in writes.items()
    }
    for change in file.pending:
        if change.data is None and rng.random() < survival:
            _apply(contents, change)
        for at, piece in _pieces(change):
            left[at // SECTOR] -= 1
            if left[at // SECTOR] < 0:
                continue
            junk = model == "junk" and rng.random() < _JUNK_SHARE
            _write(contents, at, rng.randbytes(len(piece)) if junk else piece)
    return contents


def _pieces(change: _Change) -> Iterator[tuple[int, memoryview]]:
    """A write, cut where sectors begin."""
    if change.data is None:
        return
    at, end = change.offset, change.offset + len(change.data)
    while at < end:
        stop = min(end, (at // SECTOR + 1) * SECTOR)
        yield at, change.data[at - change.offset : stop - change.offset]
        at = stop

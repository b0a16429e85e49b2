"""The records of a memory, to be written and as stored, and what reads return."""

from __future__ import annotations

import json
import secrets
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b, sha256
from itertools import chain
from typing import Any, NamedTuple

from vecall._core import joined_values, row_checksum
from vecall.errors import CorruptFileError
from vecall.lexical import ANALYSIS_VERSION
from vecall.scalars import exact_arguments
from vecall.store.values import (
    ITEM_COLUMNS,
    PIECES,
    canonical_column_text,
    old_numpy_spellings,
    parse_stored_object,
)


def hash_of_text(text: str) -> bytes:
    """Return the 16-byte hash that identifies equal texts."""
    return blake2b(text.encode(), digest_size=16).digest()


def make_memory_id(*parts: str | float | None) -> str:
    """Return the durable id of a memory: 32 hexadecimal digits.

    The parts are (session id, event id), or (session id, author, timestamp, text) if
    the event has no id. Each part is hashed with its length, so two different lists of
    parts never hash the same bytes.
    """
    digest = blake2b(digest_size=16)
    for part in parts:
        if part is None:
            digest.update(b"-")
            continue
        given = canonical_column_text(part)
        try:
            data = given.encode()
        except UnicodeEncodeError:
            data = given.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def passage_id_bounds(first: str) -> tuple[str, str]:
    """Return bounds: the ids of a turn's passages, but its own, are between them."""
    own = make_memory_id("passage", first)
    return f"{own}.", f"{own}/"  # the character after the full stop


def passage_id(first: str, number: int) -> str:
    """Return the id of the passage with a number, from 2, of a turn."""
    return f"{passage_id_bounds(first)[0]}{number}"


@dataclass(slots=True, repr=False, eq=False)
class Draft:
    """A memory to be written; all fields are validated."""

    id: str
    text: str
    session: str | None = None
    event: str | None = None
    ts: float | None = None
    author: str | None = None
    kind: str | None = None
    source: str | None = None
    trust: str | None = None
    content: str | None = None
    meta: str | None = None
    importance: float | None = None
    vec: bytes | None = None
    valid_until: float | None = None
    supersedes: str | None = None
    ttl: float | None = None  # TTL in seconds
    revision_ttl: float | None = None  # of the revision that it overwrites, in seconds
    _: KW_ONLY
    ordered: bool = False  # a turn of a session, with a position among the other turns
    quarantined: bool = False  # stored, but not found until it is released
    also_supersedes: tuple[str, ...] = ()  # further ones; its history names them
    passage_of: str | None = None  # the id of the turn of which it is a later passage
    has_own_vector: bool = False  # the caller gave `vec`; None is a zero vector then

    @property
    def hash(self) -> bytes:
        """The hash of the text."""
        return hash_of_text(self.text)


class Row(NamedTuple):
    """A stored memory without its vector."""

    rid: int
    id: str
    session: str | None
    event: str | None
    pos: float | None
    ts: float | None
    created_at: float
    expires_at: float | None
    author: str | None
    kind: str | None
    source: str | None
    trust: str | None
    text: str
    content: str | None
    meta: str | None
    importance: float | None
    uses: int | None = None
    last_used: float | None = None
    valid_until: float | None = None
    supersedes: str | None = None
    updated_at: float | None = None

    @property
    def time(self) -> float:
        """Its timestamp, or else the time when it was stored, in seconds."""
        return self.created_at if self.ts is None else self.ts

    @property
    def end(self) -> float | None:
        """When a search stops finding it, in seconds; None is never."""
        if self.valid_until is None:
            return self.expires_at
        if self.expires_at is None:
            return self.valid_until
        return min(self.expires_at, self.valid_until)


COLUMNS = (
    "rid, id, session, event, pos, ts, created_at, expires_at, author, kind, source, "
    "trust, text, content, meta, importance_prior, uses, last_used, valid_until, "
    "supersedes, updated_at"
)
"""The columns of a `Row`, in its order."""


_ALWAYS_SUMMED = Row._fields.index("uses")
_WAS_NUMPY = tuple(map(Row._fields.index, ("created_at", "expires_at")))


def _checksummed_values(row: Row) -> list[str | float | None]:
    """Return what a checksum is of, besides the vector: all columns but `updated_at`.

    Columns that were added to the format later are included only if they have a value.
    So rows from before keep their checksum.
    """
    summed: list[str | float | None] = list(row[:_ALWAYS_SUMMED])
    if row.uses is not None or row.last_used is not None:
        summed += [row.uses, row.last_used]
    if row.valid_until is not None or row.supersedes is not None:
        summed += ["valid", row.valid_until, row.supersedes]
    return summed


def checksum(row: Row, vec: bytes | None) -> int:
    """Return the CRC-32 of a row: of its vector and all columns but `updated_at`."""
    values = _checksummed_values(row)
    joined = joined_values(values)
    if joined is None:
        return _compute_row_crc(list(map(canonical_column_text, values)), vec)
    return zlib.crc32(vec or b"", zlib.crc32(joined))


def _compute_row_crc(texts: list[str], vec: bytes | None) -> int:
    return zlib.crc32(vec or b"", zlib.crc32("\0".join(texts).encode()))


def has_old_row_checksum(row: Row, vec: bytes | None, crc: object) -> bool:
    """Whether a checksum is of a spelling that vecall wrote once."""
    values = _checksummed_values(row)
    places = list(_WAS_NUMPY)
    if row.last_used is not None:
        places.append(_ALWAYS_SUMMED + 1)
    old = old_numpy_spellings(list(map(canonical_column_text, values)), values, places)
    return any(_compute_row_crc(texts, vec) == crc for texts in old)


def is_undamaged_row(row: Row, vec: Any, crc: object) -> bool:
    """Whether a row has its checksum, and only values that vecall can have written.

    Types and ranges are checked too: the author of a hostile file can compute a valid
    checksum.
    """
    own = row_checksum(row, vec)
    return own is not None and (own == crc or has_old_row_checksum(row, vec, crc))


class RowWithVector(NamedTuple):
    """A memory with its vector, and the number of the model that made it."""

    row: Row
    vec: bytes | None
    model: int | None = None


def names_checksum(part: int, app: str, user: str) -> int:
    """Return the CRC-32 of a partition's number and names."""
    return zlib.crc32(repr(exact_arguments((part, app, user))).encode())


@dataclass(slots=True, repr=False, eq=False)
class Change:
    """What one transaction did to one partition."""

    app: str
    user: str
    part: int  # its number, or 0 if it does not exist
    seq_before: int  # its newest change before the transaction
    seq: int  # its newest change after it
    stored: Sequence[RowWithVector] = ()  # rows added or replaced, with their vectors
    removed: Sequence[int] = ()  # the numbers of deleted rows
    ids: Sequence[str] = ()  # the ids of the memories that the job was about
    forgotten: bool = False  # whether the partition was deleted
    marked: Sequence[Row] = ()  # rows of which only the usage counters changed
    head_before: int = 0  # random bits of the change `seq_before`; 0 in a file
    head: int = 0  # random bits of the change `seq`; 0 in a file


# Digests of overwritten revisions, which prevent ingest from undoing a correction.

SHORT = 4  # hexadecimal digits of a digest after a purge

COMPARED = (
    "session event ts author kind source trust text content meta importance"
).split()
"""The fields whose change makes a new revision."""


def was_draft_overwritten(draft: Draft, digests: set[str]) -> bool:
    """Whether a draft equals a revision that a correction has overwritten."""
    digest = digest_of_draft(draft)
    return digest in digests or digest[:SHORT] in digests


def digest_of_draft(draft: Draft) -> str:
    """Return a digest of the fields in `COMPARED`."""
    return _compared_values_digest({name: getattr(draft, name) for name in COMPARED})


def digest_of_revision(old: str) -> str:
    """Return the digest of a revision; the history may hold only the digest."""
    revision: dict[str, object] = parse_stored_object(old)
    digest = revision.get("digest")
    return digest if isinstance(digest, str) else _compared_values_digest(revision)


def _compared_values_digest(values: Mapping[str, object]) -> str:
    text = json.dumps([values.get(name) for name in COMPARED])
    return blake2b(text.encode(), digest_size=16).hexdigest()


# Values that the read operations of a storage return, besides rows.

Version = tuple[int, int, int]
"""(part, seq, head): a partition's number, the number of its newest change, and random
bits of that change. A change of a lost history may have the same number, and has other
bits. `head` is 0 before the first change."""


class PartitionState(NamedTuple):
    """The state of a partition."""

    seq: int  # its newest change
    snap: bytes | None  # the record of its snapshot; None if it has no snapshot
    live: int  # the number of its live memories
    head: int  # random bits of its newest change; 0 before the first one


class ChangedRows(NamedTuple):
    """The numbers of changed rows."""

    written: list[int]  # rows that were written or deleted
    marked: list[int]  # rows of which only the usage counters changed


class RevisionRow(NamedTuple):
    """One revision of a memory: the current one, or an overwritten one."""

    row: Row  # the content of the revision
    # Of the current revision "live", "archived" or "quarantined". Of an older one
    # "overwritten", or "quarantined" if it was so when overwritten.
    state: str
    # When the revision was overwritten or archived, in seconds; otherwise None.
    at: float | None
    why: str | None  # the operation that overwrote it, or the reason for its archiving
    by: str | None  # the id of the memory that replaced it

    @property
    def is_current(self) -> bool:
        """Whether it is the current revision of its memory."""
        return self.state in ("live", "archived") or self.at is None


class BufferedTurn(NamedTuple):
    """A turn in a session's buffer, which is not a memory yet."""

    id: str  # its id, unique in its session
    event: dict[str, Any]  # the turn as a mapping


class DueSession(NamedTuple):
    """A session whose buffered turns are due to become memories."""

    app: str
    user: str
    session: str


Said = tuple[bytes, str | None]
"""(hash, author) of a text: equal pairs get the same vector from the embedder."""


class DraftLookup(NamedTuple):
    """What to look up before some drafts are embedded."""

    app: str
    user: str
    ids: Sequence[str]  # the ids of the memories to add
    texts: Sequence[Said]  # (hash, author) of each of them
    model: int  # only vectors of the model with this number are returned
    key: str | None = None  # the call's idempotency key
    # The number of the user's partition, as far as it is known. If it is right, a
    # database is asked once and not twice.
    likely_part: int | None = None


@dataclass(slots=True, repr=False, eq=False)
class ExistingMemories:
    """What a storage has on record about the ids and texts of some drafts."""

    # The number of the user's partition; None if the user has none.
    part: int | None = None
    # (hash, author) of each stored memory that has a vector, by id.
    texts: dict[str, Said] = field(default_factory=dict)
    # Ids that a caller deleted. Only a fact that is added again comes back.
    deleted: set[str] = field(default_factory=set)
    # Ids that expired or were evicted. A turn with such an id is skipped.
    let_go: set[str] = field(default_factory=set)
    # Digests of the revisions that corrections overwrote, by id.
    corrected: dict[str, set[str]] = field(default_factory=dict)
    # Vectors of equal texts in other memories of the user, by (hash, author).
    vectors: dict[Said, bytes] = field(default_factory=dict)

    def needs_vector(self, draft: Draft, *, restore: bool, again: bool) -> bool:
        """Whether the draft will be written and needs a vector that is not stored."""
        if not restore:
            fact = not draft.ordered
            if draft.id in self.deleted and not (fact and again):
                return False
            if draft.id in self.let_go and not fact:
                return False
            old = self.corrected.get(draft.id)
            if old is not None and was_draft_overwritten(draft, old):
                return False
        stored = self.texts.get(draft.id)
        return stored is None or stored != (draft.hash, draft.author)


# All rows of one user, in a form that does not depend on the storage.
#
# Row numbers are without the number of the partition, and times on the expiry clock are
# as of the storage that the rows come from.


class CopiedTable(NamedTuple):
    """A table with rows of one user."""

    columns: tuple[str, ...]  # the columns without `part`. A column `rid` is the first.
    key: str  # the columns by which rows are ordered
    clocked: str | None = None  # the column on the expiry clock, if there is one

    @property
    def clocked_at(self) -> int | None:
        """The place of this column."""
        return None if self.clocked is None else self.columns.index(self.clocked)


TABLES = {
    "mem": CopiedTable(
        (*COLUMNS.split(", "), "seq", "state", "hash", "vec", "model", "crc"),
        "rid",
        "expires_at",
    ),
    "item": CopiedTable(
        (*ITEM_COLUMNS.split(", "), "vecs", "crc"), "rid", "expires_at"
    ),
    "chg": CopiedTable(("rid", "seq", "op"), "seq"),
    "tomb": CopiedTable(("id", "at", "why"), "id"),
    "hist": CopiedTable(
        ("id", "seq", "at", "op", "old", "expires_at"), "id, seq", "expires_at"
    ),
    "idem": CopiedTable(("key", "at", "hash", "ids"), "key", "at"),
    "trig": CopiedTable(
        ("session", "kind", "due_at", "state"), "session, kind", "due_at"
    ),
    "replaced": CopiedTable(("id", "by", "why", "at"), "id"),
    "told": CopiedTable(("session", "id", "at", "pos", "event"), "session, id"),
}
"""The tables with rows of one user, apart from caches and vectors of another model."""


class PartitionNames(NamedTuple):
    """A user of a storage, and the version of its rows."""

    part: int
    app: str
    user: str
    seq: int
    live: int
    nbytes: int
    created_at: float
    item: str | None


@dataclass(slots=True, repr=False, eq=False)
class PartitionCopy:
    """All rows of one user."""

    names: PartitionNames
    # The rows of each table of `TABLES`, without `part`, in order.
    tables: dict[str, list[tuple[Any, ...]]]
    expiry_now: float  # the reading of the storage's expiry clock
    # Of the names and of all values but checksums and times on the clock.
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        digest = blake2b(digest_size=16)
        for value in self.names[1:]:
            digest.update(_encode_value_for_digest(value))
        for table, rows in self.tables.items():
            known = TABLES[table]
            summed = [
                (at, name == known.clocked)
                for at, name in enumerate(known.columns)
                if name not in ("crc", "model")
            ]
            digest.update(b"%s %d " % (table.encode(), len(rows)))
            for row in rows:
                # Whether a time is set counts; its value depends on the clock.
                values = [row[at] is None if clock else row[at] for at, clock in summed]
                digest.update(b"".join(map(_encode_value_for_digest, values)))
        self.digest = digest.hexdigest()

    @property
    def items(self) -> int:
        """The number of items."""
        return sum(row[1] != PIECES for row in self.tables["item"])

    @property
    def nbytes(self) -> int:
        """Estimate the size of the rows, in bytes."""
        values = chain.from_iterable(chain.from_iterable(self.tables.values()))
        return sum(len(each) if isinstance(each, str | bytes) else 8 for each in values)

    def latest_difference(self, other: PartitionCopy, shift: float = 0.0) -> float:
        """Return the greatest difference to the times of an equal copy, in seconds.

        The clock of the other one is ahead by `shift`.
        """
        times = zip(_expiry_clock_times(self), _expiry_clock_times(other), strict=True)
        return max((abs(theirs - ours - shift) for ours, theirs in times), default=0.0)


def _encode_value_for_digest(value: object) -> bytes:
    if isinstance(value, bytes):
        return b"b%d:%s" % (len(value), value)
    if isinstance(value, str):
        data = value.encode()
        return b"s%d:%s" % (len(data), data)
    return b"%s;" % repr(value).encode()


def _expiry_clock_times(copied: PartitionCopy) -> Iterator[float]:
    for table, rows in copied.tables.items():
        at = TABLES[table].clocked_at
        yield from (row[at] for row in rows if at is not None and row[at] is not None)


def shift_copied_times(copied: PartitionCopy, shift: float) -> PartitionCopy:
    """Return the rows with `shift` seconds added to the times on the expiry clock."""
    tables = dict(copied.tables)
    for table, rows in copied.tables.items() if shift else ():
        at = TABLES[table].clocked_at
        if at is not None:
            tables[table] = [
                row if row[at] is None else (*row[:at], row[at] + shift, *row[at + 1 :])
                for row in rows
            ]
    return replace(copied, tables=tables, expiry_now=copied.expiry_now + shift)


# The tag of a snapshot, and the record in the file that makes the snapshot valid.
#
# A snapshot is valid if the storage records its nonce and its digest for the partition,
# and its history contains the snapshot's newest change, which has the same random bits.
# So only a process that can write the storage can make a valid snapshot. Every snapshot
# has a new nonce, which is recorded after the snapshot is in place. So a storage that
# was replaced by a backup has no record of the snapshots that were made later.

NONCE_BYTES = 8
_DIGEST_BYTES = 16
_TAG = struct.Struct("<16sIIQ8sII")  # 48 bytes, the size of the engine's tag
TAG_AT = 64  # where the tag is in a snapshot
HEADER_BYTES = 128  # of a snapshot; the tag is inside
# Tags of the first format had no random bits, and a number of 8 bytes.
_ANALYSIS = zlib.crc32(f"{ANALYSIS_VERSION}, tag 2".encode())


class SnapshotTag(NamedTuple):
    """Identifies the state that a snapshot holds."""

    uuid: bytes
    part: int
    seq: int  # the newest change that the snapshot contains
    head: int  # random bits of that change
    nonce: bytes  # random bytes, new for every snapshot
    model: int  # the number of the model of its vectors; 0 without vectors
    analysis: int  # the version of the text analysis that produced its terms

    @classmethod
    def new(cls, uuid: bytes, version: tuple[int, int, int], model: int) -> SnapshotTag:
        """Return the tag of a snapshot that is about to be taken."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return cls(uuid, *version, nonce, model, _ANALYSIS)

    @classmethod
    def unpack_tag(cls, data: bytes) -> SnapshotTag:
        """Return the tag that 48 bytes encode."""
        return cls(*_TAG.unpack(data))

    @classmethod
    def of_snapshot(cls, header: bytes) -> SnapshotTag | None:
        """Return the tag in the first bytes of a snapshot; None if they are too few."""
        tag = header[TAG_AT : TAG_AT + _TAG.size]
        return cls.unpack_tag(tag) if len(tag) == _TAG.size else None

    def pack(self) -> bytes:
        """Return the tag as 48 bytes."""
        return _TAG.pack(*self)

    def is_of(self, uuid: bytes, part: int, record: bytes, model: int) -> bool:
        """Whether the tag belongs to the snapshot that is on record for a partition."""
        nonce = record[:NONCE_BYTES]
        state = self._replace(seq=0, head=0)
        return state == (uuid, part, 0, 0, nonce, model, _ANALYSIS)


def record_of_snapshot(nonce: bytes, data: bytes) -> bytes:
    """Return the record that a storage has of a snapshot: nonce and digest."""
    # Most processors have instructions for SHA-256: half of BLAKE2b's time.
    return nonce + sha256(data).digest()[:_DIGEST_BYTES]


def checked_snapshot(part: int, record: bytes, data: bytes) -> bytes | None:
    """Return the bytes of a snapshot if they are those on record, else None."""
    nonce = record[:NONCE_BYTES]
    if record == record_of_snapshot(nonce, data):
        return data
    # Another process may just have replaced the snapshot. With the recorded nonce, it
    # is the recorded snapshot, altered.
    if nonce in data[:HEADER_BYTES]:
        raise CorruptFileError(f"snapshot {part} is damaged")
    return None


class MemoryCounts:
    """Counts of the memories that a transaction adds to a partition, or deletes.

    Attributes:
        counts: Their number, of live ones, bytes of those, archived and quarantined
            ones, of those without a vector; the least `created_at` and the greatest
            `updated_at`.
        sessions: For each session their number, of live ones, bytes of those, and the
            first and the last time of one.
    """

    __slots__ = ("counts", "sessions")

    def __init__(self) -> None:
        """Count none."""
        self.counts: list[float] = [0, 0, 0, 0, 0, 0, 9e99, -9e99]
        self.sessions: dict[str, list[float]] = {}

    def add_memory(
        self,
        state: str,
        session: str | None,
        size: int,
        is_bare: bool,
        created_at: float,
        updated_at: float,
        ts: float | None,
    ) -> None:
        """Count a memory, of which `size` is the bytes of the text."""
        counts = self.counts
        counts[0] += 1
        live = state == "live"
        if live:
            counts[1] += 1
            counts[2] += size
        else:
            counts[3 if state == "archived" else 4] += 1
        counts[5] += is_bare
        counts[6] = min(counts[6], created_at)
        counts[7] = max(counts[7], updated_at)
        if session is not None:
            said = created_at if ts is None else ts
            known = self.sessions.get(session)
            if known is None:
                self.sessions[session] = [1, live, size * live, said, said]
                return
            known[0] += 1
            known[1] += live
            known[2] += size * live
            known[3] = min(known[3], said)
            known[4] = max(known[4], said)

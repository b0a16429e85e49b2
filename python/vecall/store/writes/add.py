"""Upserts memories by id. A memory that is missing from a call is not deleted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import Any

from vecall.concurrency.time_slices import in_slices
from vecall.errors import ConflictError, CorruptFileError, NotFoundError, VecallError
from vecall.filters.rights import FULL, Rights
from vecall.store import names as stored_names
from vecall.store import rows as records
from vecall.store import transaction
from vecall.store.queries.partition_reads import load_rows
from vecall.store.rows import Change, Draft, DraftLookup, RowWithVector, Said
from vecall.store.writes import history, partition_writer
from vecall.store.writes.delete import delete_other_turns, delete_stale_passages
from vecall.store.writes.quota import UserQuota, evict_over_quota
from vecall.store.writes.sessions import LAST_POSITION, Positions, mark_turns_done

# Idempotency keys: a repeated call is executed once.

_DROPPED = b""  # a purge leaves no digest of the call
_LIFETIME_S = 30 * 86_400.0
_OF_KEY = "SELECT hash, ids FROM idem WHERE part = ? AND key = ?"


class ForgottenKeyError(VecallError):
    """A call was expected to be a repeat, but its idempotency key is unknown."""


class IdempotencyRecord:
    """One user's key and the memories of its call."""

    def __init__(
        self,
        partition: partition_writer.PartitionWriter,
        key: str,
        drafts: Sequence[Draft],
    ) -> None:
        """Take a call inside its transaction."""
        self._partition = partition
        self._key = key
        self._hash = _drafts_hash(drafts)
        self._drafts = {draft.id: draft for draft in drafts}

    def earlier_ids(self, keys: Sequence[bytes]) -> list[str] | None:
        """Return the ids of the first call with this key; None if this is the first."""
        # ConflictError: the key was used for a call with other memories.
        connection, part = self._partition.connection, self._partition.id
        found = find_repeated_call(connection, part, self._key, keys)
        if found is None:
            return None
        stored_ids: list[str] = json.loads(found[1])
        if found[0] == self._hash and not any(
            map(stored_names.is_hidden_id, stored_ids)
        ):
            return stored_ids
        forms = stored_names.hidden_forms_of(connection, part, self._drafts, keys)
        ids = [forms[id_] for id_ in stored_ids if id_ in forms]
        same = found[0] == self._hash
        if not same and (
            found[0] != _DROPPED or not self._may_have_given(stored_ids, ids)
        ):
            msg = "idempotency_key: was used for other memories of this user"
            raise ConflictError(msg)
        return ids

    def _may_have_given(self, stored_ids: Sequence[str], ids: Sequence[str]) -> bool:
        """Whether a call with `ids` of these may have stored them all."""
        if len(ids) < len(stored_ids):
            return False
        # The first call left out deleted memories and expired turns.
        missing = self._drafts.keys() - set(ids)
        facts = [id_ for id_ in missing if not self._drafts[id_].ordered]
        connection, part = self._partition.connection, self._partition.id
        gone = {
            id_ for id_, *_ in stored_names.read_tombstones(connection, part, facts)
        }
        return gone.issuperset(facts)

    def store_call(self, ids: Sequence[str]) -> None:
        """Record the call, and delete records older than 30 days."""
        self._partition.reveal_user_names()
        part, now = self._partition.id, self._partition.expiry_now
        execute = self._partition.execute
        execute("DELETE FROM idem WHERE part = ? AND at < ?", (part, now - _LIFETIME_S))
        query = "INSERT INTO idem (part, key, at, hash, ids) VALUES (?, ?, ?, ?, ?)"
        execute(query, (part, self._key, now, self._hash, json.dumps(list(ids))))


def find_repeated_call(
    connection: transaction.Transaction, part: int, key: str, keys: Sequence[bytes]
) -> tuple[bytes, str] | None:
    """Return the hash and the ids of a call with a key; None if it is unknown."""
    for form in stored_names.hidden_forms_of(connection, part, [key], keys):
        found: tuple[bytes, str] | None
        found = connection.execute(_OF_KEY, (part, form)).fetchone()
        if found is not None:
            return found
    return None


def _reads_of_ids(
    connection: transaction.Transaction,
    part: int,
    key: str | None,
    ids: Sequence[str],
    query: str,
) -> Iterator[transaction.Statement]:
    """Yield what is read of a key and of ids, if no purge has hidden an id."""
    # The query is that of the memories, without the ids at its end.
    if key is not None:
        yield stored_names.digest_keys_statement(part)
        yield _OF_KEY, (part, key)
    yield from stored_names.announce_tombstone_reads(connection, part, ids)
    yield from transaction.in_statements(connection, query, [part], ids)
    yield history.ANY_CORRECTED, (part,)


def drop_call_digests(connection: transaction.Transaction) -> None:
    """Delete the digests of texts from all keys, and keep the ids."""
    # A repeat of such a call is still recognised, by its ids. Proposals to forget are
    # deleted with their digests.
    connection.execute("DELETE FROM idem WHERE hash IS NULL")
    connection.execute("UPDATE idem SET hash = ?", (_DROPPED,))


def _drafts_hash(drafts: Sequence[Draft]) -> bytes:
    """A digest of a call: of the ids and contents, but not of the TTLs."""
    digest = blake2b(digest_size=16)
    for draft in drafts:
        for part in (draft.id, draft.text, draft.content, draft.meta, draft.author):
            data = b"" if part is None else part.encode()
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.digest()


# Upserts the memories of a call.

_ID, _IS_ORDERED = attrgetter("id"), attrgetter("ordered")
_ROW_BYTES = 500  # of a row besides its text and vector, with indexes and log


@dataclass(slots=True, repr=False, eq=False)
class AddMemories(partition_writer.UserJob):
    """Adds the memories of one call to one user, atomically."""

    drafts: Sequence[Draft]  # the memories; of those with equal ids, the last wins
    model: int | None = None  # number of the embedding model of the drafts' vectors
    # Store every draft, also one that was deleted, evicted or expired. Otherwise turns
    # of a session stay deleted.
    restore: bool = False
    # Also delete the memories of this session that are not among the drafts.
    replace: str | None = None
    # Idempotency key: a second call with the same key changes nothing.
    key: str | None = None
    ttl: float | None = None  # default TTL of new memories, in seconds
    revision_ttl: float | None = None  # TTL of overwritten revisions, in seconds
    bounds: UserQuota | None = None
    edit: bool = False  # the call corrects memories, which must exist
    # Ids of buffered turns of the session that this call consumes.
    done: tuple[str, Sequence[str]] | None = None
    # Live memories that the drafts summarize, with the hashes of their texts. They are
    # archived. If one has changed, the call does nothing.
    fold: Mapping[str, bytes] = field(default_factory=dict)
    again: bool = False  # also store facts that were deleted
    # The key was found used, so the drafts have no vectors. If the key is unknown when
    # the job runs, nothing is written.
    answered: bool = False
    absent: bool = False  # write nothing if one of the memories exists
    # Write nothing if the `updated_at` of the memory to correct differs.
    version: float | None = None
    # The number of the user's partition, as far as it is known.
    likely_part: int | None = None
    # What the caller sees. A draft with the id of a memory below its floor is left out
    # as "taken", unless it says the same. One with the id of a quarantined memory that
    # it does not see is written as a new one; the text that it replaces stays in the
    # history.
    rights: Rights = FULL
    # Set by `run`: why drafts are not stored, by id.
    left_out: dict[str, history.Away] = field(default_factory=dict)
    # Set by `run`: the corrected memory as this job leaves it.
    edited: records.Row | None = None
    folded: int = 0  # set by `run`: how many memories it archived for `fold`

    def run(self, connection: transaction.Transaction) -> Change:
        """Do it inside a transaction."""
        # ForgottenKeyError: `answered` is set, and the key is unknown. ConflictError:
        # `absent` or `version` does not hold.
        reads = partial(self._reads_before_add, connection)
        ahead = transaction.ReadsAhead(reads, self.likely_part)
        partition = partition_writer.PartitionWriter(
            connection, self.app, self.user, create=True, ahead=ahead
        )
        transaction.require_active_model(connection, self.model)
        record = None
        if self.key is not None:
            record = IdempotencyRecord(partition, self.key, self.drafts)
        self.left_out, self.folded = {}, 0
        # One look-up serves the idempotency key and the tombstones.
        keys = (
            stored_names.digest_keys(connection, partition.id)
            if self.drafts or record
            else []
        )
        if record is not None and (ids := record.earlier_ids(keys)) is not None:
            self._explain_repeated_call(partition, ids)
            return partition.changed(ids=ids)
        if self.answered:
            raise ForgottenKeyError
        folded = (
            partition_writer.rows_to_fold(partition, self.fold) if self.fold else []
        )
        if folded is None:
            return partition.changed()
        drafts = dict(zip(map(_ID, self.drafts), self.drafts, strict=True))
        self.left_out, back = history.leave_out_deleted(
            partition, drafts, keys, self.restore, self.again
        )
        stored = history.find_stored_drafts(partition, list(drafts))
        hidden = history.NOTHING_HIDDEN
        if self.rights is not FULL:
            how = (self.rights, self.edit, self.restore)
            hidden = history.set_hidden_aside(partition, drafts, stored, *how)
            self.left_out |= dict.fromkeys(hidden.taken, "taken")
        outdated = set(hidden.same)
        if stored or self.edit:
            self._check_versions(partition, stored)
            outdated |= self._leave_out_outdated(partition, drafts, stored)
        back |= hidden.replaced.keys() | history.changed_turns(drafts, stored)
        changed = back - outdated
        removed = list(hidden.deleted)
        if not self.edit and (changed or self.replace is not None):
            removed += self._remove_others(partition, changed)
        places, written = None, list[RowWithVector]()
        if turns := list(filter(_IS_ORDERED, drafts.values())):
            places = Positions(partition, turns, {**stored, **hidden.same})
            written = partition_writer.rewrite_positions(
                partition, places.moved, hidden.same
            )
        news = drafts
        if outdated:
            news = {id_: drafts[id_] for id_ in drafts if id_ not in outdated}
        stored |= hidden.replaced
        put = self._write_drafts(partition, news, stored, places, hidden.replaced)
        removed += self._replace_older(partition, put, folded, written)
        less = (
            partition_writer.Waits()
            if self.done is None
            else mark_turns_done(partition, *self.done)
        )
        if self.bounds is not None:
            removed += evict_over_quota(partition, self.bounds, written, less)
        if record is not None:
            record.store_call(list(drafts))
        return partition.changed(written, removed, list(drafts))

    def _reads_before_add(
        self, connection: transaction.Transaction, part: int
    ) -> Iterator[transaction.Statement]:
        """Yield what an ordinary call reads before it writes."""
        ids = list(dict.fromkeys(draft.id for draft in self.drafts))
        yield from _reads_of_ids(connection, part, self.key, ids, history.STORED)
        for draft in islice(filter(_IS_ORDERED, self.drafts), 1):
            yield LAST_POSITION, (part, draft.session)
        yield partition_writer.NEXT_VECTORS, ()

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes the file grows by."""
        size = 0
        for draft in in_slices(self.drafts):
            size += _ROW_BYTES + len(draft.text) + len(draft.vec or b"")
        return size

    def _check_versions(
        self,
        partition: partition_writer.PartitionWriter,
        stored: dict[str, history.ExistingRow],
    ) -> None:
        """Raise ConflictError unless the memories are as the caller last saw them."""
        now = partition.expiry_now
        if self.absent and not all(row.has_expired(now) for row in stored.values()):
            raise ConflictError("if_absent: the user has a memory with one of the ids")
        if self.version is not None and any(
            known.row.updated_at != self.version for known in stored.values()
        ):
            msg = "if_version: the memory was changed since then; read it again"
            raise ConflictError(msg)

    def _explain_repeated_call(
        self, partition: partition_writer.PartitionWriter, ids: Sequence[str]
    ) -> None:
        """Set `left_out` of a repeated call to what the first call left out."""
        missing = {draft.id for draft in self.drafts} - set(ids)
        self.left_out = dict.fromkeys(missing, "expired")
        found = stored_names.read_tombstones(
            partition.connection, partition.id, sorted(missing)
        )
        self.left_out |= {id_: why or "deleted" for id_, _, why in found}

    def _leave_out_outdated(
        self,
        partition: partition_writer.PartitionWriter,
        drafts: dict[str, Draft],
        stored: dict[str, history.ExistingRow],
    ) -> set[str]:
        """Drop expired turns and report drafts that a correction has overwritten."""
        if self.edit:
            for id_ in drafts:
                known = stored.get(id_)
                now = partition.expiry_now
                if known is None or known.state != "live" or known.has_expired(now):
                    raise NotFoundError("memory_id: this user has no such memory")
        if self.edit or self.restore:
            return set()
        old = history.corrected_digests(
            partition.connection, partition.id, list(stored)
        )
        for id_, known in stored.items():
            # An expired turn counts as deleted before a sweep deletes it.
            if drafts[id_].ordered and known.has_expired(partition.expiry_now):
                self.left_out[id_] = "expired"
                del drafts[id_]
        return {
            id_
            for id_, digests in old.items()
            if id_ in drafts and records.was_draft_overwritten(drafts[id_], digests)
        }

    def _remove_others(
        self, partition: partition_writer.PartitionWriter, changed: set[str]
    ) -> list[int]:
        """Delete old passages of changed turns, and others of a replaced session."""
        ids = {draft.id for draft in self.drafts}
        stale = delete_stale_passages(partition, changed, ids, self.rights)
        if self.replace is None:
            return stale
        return stale + delete_other_turns(partition, self.replace, ids, self.rights)

    def _replace_older(
        self,
        partition: partition_writer.PartitionWriter,
        put: Sequence[tuple[Draft, RowWithVector]],
        folded: Sequence[int],
        written: list[RowWithVector],
    ) -> list[int]:
        """Add live rows to `written`; return what they replace, which is archived."""
        removed: list[int] = []
        newer: dict[str, str] = {}
        found = None
        for draft, entry in put:
            if draft.quarantined:
                removed.append(entry.row.rid)
                continue
            written.append(entry)
            found = found or draft.id
            if draft.supersedes is not None:
                older = (draft.supersedes, *draft.also_supersedes)
                newer |= dict.fromkeys(older, draft.id)
        if newer:
            removed += partition_writer.supersede_rows(partition, newer, self.rights)
        if folded and found:
            removed += partition_writer.archive(partition, folded, "folded", found)
            self.folded = len(folded)
        return removed

    def _write_drafts(
        self,
        partition: partition_writer.PartitionWriter,
        drafts: dict[str, Draft],
        stored: dict[str, history.ExistingRow],
        places: Positions | None,
        hidden: Collection[str],
    ) -> list[tuple[Draft, RowWithVector]]:
        """Write the drafts that differ from their rows; return them with their rows."""
        # Of a stored row among `hidden` the memory gets the id alone.
        inserts: list[tuple[Any, ...]] = []
        put = []
        returning = _turns_made_live(drafts, stored) if stored else set()
        for id_, draft in in_slices(drafts.items()):
            known = stored.get(id_)
            pos = None if places is None else places.new.get(id_)
            if known is None:
                put.append((draft, self._new_added_row(partition, draft, pos, inserts)))
                continue
            was = None if id_ in hidden else known
            keeps = draft.ordered or was is not None
            if pos is None and keeps and known.row.session == draft.session:
                pos = known.row.pos
                if places is not None:
                    pos = places.moved.get(id_, pos)
            expires_at = history.expiry_of(draft, was, partition.expiry_now, self.ttl)
            back = known.state == "archived" and (
                self.restore or (draft.passage_of or id_) in returning
            )
            if back or not history.is_noop(draft, known, expires_at, exact=self.edit):
                if known.state == "live" and history.has_same_content(draft, known):
                    draft.quarantined = False  # it was released
                row = self._update_memory_row(
                    partition, draft, known, pos, expires_at, hidden=was is None
                )
                put.append((draft, row))
                self.edited = row.row
            elif self.edit:
                self.edited = known.row
        columns = f"mem ({records.COLUMNS}, {history.REST}, state)"
        transaction.insert_many(partition.connection, columns, inserts)
        return put

    def _new_added_row(
        self,
        partition: partition_writer.PartitionWriter,
        draft: Draft,
        pos: float | None,
        inserts: list[tuple[Any, ...]],
    ) -> RowWithVector:
        """Return a new row, which a later `inserts` statement writes."""
        live, size = int(not draft.quarantined), len(draft.text.encode())
        rid = partition.change(0, "u", live=live, size=size * live)
        expires_at = history.expiry_of(draft, None, partition.expiry_now, self.ttl)
        row = history.row_of_new_draft(draft, rid, pos, partition.now, expires_at)
        state = "quarantined" if draft.quarantined else "live"
        more = history.values_of_rest(partition, row, draft, draft.vec, self.model)
        inserts.append((*row, *more, state))
        times = row.created_at, row.updated_at or row.created_at, row.ts
        added = partition.added = partition.added or records.MemoryCounts()
        added.add_memory(state, row.session, size, draft.vec is None, *times)
        return RowWithVector(row, draft.vec, self.model)

    def _update_memory_row(
        self,
        partition: partition_writer.PartitionWriter,
        draft: Draft,
        old: history.ExistingRow,
        pos: float | None,
        expires_at: float | None,
        *,
        hidden: bool,
    ) -> RowWithVector:
        was, live = int(old.state == "live"), int(not draft.quarantined)
        size = len(draft.text.encode()) * live - len(old.row.text.encode()) * was
        partition.change(old.row.rid, "u", live=live - was, size=size)
        operation = "edit" if self.edit else "update"
        history.append_history(partition, draft, old, operation, self.revision_ttl)
        vec, model = draft.vec, self.model
        is_same = (draft.author, draft.text) == (old.row.author, old.row.text)
        if is_same and not draft.has_own_vector and self._keeps_vector(draft, old):
            vec, model = old.vec, old.model
        now = partition.after(old.row.updated_at)
        if hidden:
            row = history.row_of_new_draft(draft, old.row.rid, pos, now, expires_at)
        else:
            row = history.merge_draft_into_row(draft, old, pos, now, expires_at)
        if self.edit:
            row = row._replace(valid_until=draft.valid_until)
        names = records.COLUMNS.replace("rid, ", "", 1) + ", " + history.REST
        state = "live" if live else "quarantined"
        more = history.values_of_rest(partition, row, draft, vec, model)
        partition.execute(
            f"UPDATE mem SET {names.replace(',', ' = ?,')} = ?, state = ? "
            "WHERE rid = ?",
            (*row[1:], *more, state, row.rid),
        )
        if old.state == "archived":
            own = (partition.id, draft.id)
            partition.execute("DELETE FROM replaced WHERE part = ? AND id = ?", own)
        return RowWithVector(row, vec, model)

    def _keeps_vector(self, draft: Draft, old: history.ExistingRow) -> bool:
        """Whether a memory whose text does not change keeps its vector."""
        # A vector of the caller's is not replaced by one of another memory's equal
        # text.
        if draft.vec is None:
            return True
        if old.vec is None or old.model != self.model:
            return False
        return draft.vec != old.vec and old.is_undamaged()


def _turns_made_live(
    drafts: Mapping[str, Draft], stored: Mapping[str, history.ExistingRow]
) -> set[str]:
    """Return the turns whose archived passages become live: a passage has changed."""
    if all(row.state != "archived" for row in stored.values()):
        return set()
    return {
        draft.passage_of or id_
        for id_, draft in drafts.items()
        if id_ not in stored or not history.has_same_content(draft, stored[id_])
    }


# Looks up drafts in the file before they are embedded.

_AT_ONCE = 400  # texts per statement, two values each
_LOOKED_AT = 8  # rows of the same text, newest first, of any author
_OF_IDS = (
    "SELECT id, hash, author, vec IS NOT NULL, coalesce(expires_at, 9e99) FROM mem "
    "WHERE part = ? AND id IN"
)
_SAME_TEXT = """
SELECT hash, author, (
  SELECT rid FROM (
    SELECT rid, author, vec FROM mem WHERE part = ? AND hash = said.hash
    ORDER BY rid DESC LIMIT ?
  ) AS same WHERE author IS said.author AND vec NOTNULL LIMIT 1
) FROM said
"""


def lookup_existing(
    connection: transaction.Transaction, asked: DraftLookup, now: float
) -> records.ExistingMemories | None:
    """Return what the file has on record about the ids and texts of drafts."""
    # None if the idempotency key was used before.
    part = stored_names.part_of(connection, asked.app, asked.user)
    if part is None:
        return records.ExistingMemories()
    asks_all = transaction.announce_reads(
        connection, lambda: reads_of_new_drafts(connection, asked, part)
    )
    return existing_in_partition(connection, part, asked, now, asks_all=asks_all)


def existing_in_partition(
    connection: transaction.Transaction,
    part: int,
    asked: DraftLookup,
    now: float,
    *,
    asks_all: bool,
) -> records.ExistingMemories | None:
    """Return what `lookup_existing` does, of a partition."""
    # `asks_all` asks for all texts, else only for unknown ones.
    known = records.ExistingMemories(part)
    ids = asked.ids
    keys = (
        stored_names.digest_keys(connection, part)
        if ids or asked.key is not None
        else []
    )
    if asked.key is not None and find_repeated_call(connection, part, asked.key, keys):
        return None
    for id_, _, why in stored_names.read_tombstones(connection, part, ids, keys):
        (known.deleted if why is None else known.let_go).add(id_)
    for id_, text, author, embedded, expires_at in transaction.select_in(
        connection, _OF_IDS, [part], ids
    ):
        if embedded:
            known.texts[id_] = (text, author)
        if expires_at <= now:
            known.let_go.add(id_)
    known.corrected = history.corrected_digests(connection, part, ids)
    said = zip(ids, asked.texts, strict=True)
    new = [text for id_, text in said if known.texts.get(id_) != text]
    texts = asked.texts if asks_all else new
    rids = _rows_with_texts(connection, part, texts)
    known.vectors = _vectors_of_rows(
        connection, [rids.get(text) for text in new], asked.model
    )
    return known


def reads_of_new_drafts(
    connection: transaction.Transaction, asked: DraftLookup, part: int
) -> Iterator[transaction.Statement]:
    """Yield what `lookup_existing` reads if the ids and texts are new."""
    yield from _reads_of_ids(connection, part, asked.key, asked.ids, _OF_IDS)
    yield from _statements_of_same_texts(connection, part, asked.texts)


def _statements_of_same_texts(
    connection: transaction.Transaction, part: int, said: Iterable[Said]
) -> Iterator[transaction.Statement]:
    """Yield the statements that find memories of the same texts and authors."""
    wanted = list(dict.fromkeys(said))
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        rows, values = transaction.given_rows(connection, "said (hash, author)", some)
        yield f"{rows} {_SAME_TEXT}", (*values, part, _LOOKED_AT)


def vectors_of_same_texts(
    connection: transaction.Transaction, part: int, said: Iterable[Said], model: int
) -> dict[Said, bytes]:
    """Return the vectors of a model that a partition has for equal texts."""
    # They are float32 little-endian, by (hash, author). Texts without one are left out.
    rids = _rows_with_texts(connection, part, said)
    return _vectors_of_rows(connection, rids.values(), model)


def _rows_with_texts(
    connection: transaction.Transaction, part: int, said: Iterable[Said]
) -> dict[Said, int | None]:
    """Return for each text the number of a row that has it, with a vector."""
    rows: dict[Said, int | None] = {}
    for statement in _statements_of_same_texts(connection, part, said):
        for text, author, rid in connection.execute(*statement).fetchall():
            rows[text, author] = rid
    return rows


def _vectors_of_rows(
    connection: transaction.Transaction, found: Iterable[int | None], model: int
) -> dict[Said, bytes]:
    rids = [rid for rid in dict.fromkeys(found) if rid is not None]
    if not rids:
        return {}
    try:
        stored = load_rows(connection, rids, any_state=True)
    except CorruptFileError:
        return {}  # the texts are embedded again; a search reports the damage
    return {
        (records.hash_of_text(row.text), row.author): vec
        for row, vec, of_model in stored
        if vec is not None and of_model == model
    }

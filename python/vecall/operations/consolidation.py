"""Consolidation: merges duplicate memories, and summarizes old ones."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vecall import errors, store
from vecall.clock import ttl_seconds
from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.ingest.passages import SUMMARY, lowest_trust, merged_summary, summary_drafts
from vecall.lexical import memory_terms
from vecall.lexical.statements import (
    PROPOSED,
    has_reordered_words,
    statement_key,
    text_likeness,
)
from vecall.lexical.tokenizer import words
from vecall.operations.options import checked_summarizer
from vecall.operations.session_triggers import SessionObserver
from vecall.operations.writes import OperationGroup, WriteRequest, Writes, is_statement
from vecall.scalars import Shown, exact, make_fields_exact
from vecall.search.searcher import entry_of_row
from vecall.store import Row, RowWithVector
from vecall.summaries import SummaryProvider
from vecall.telemetry import observed
from vecall.text import few_marks, lazy_pattern, to_nfc
from vecall.types import Conflict, Consolidation, DuplicateGroup
from vecall.validation import check_top_k, checked_bool

# Finds duplicate memories by their words.


# Words that do not change the meaning of a sentence. The set has no negations, numbers,
# demonstratives, prepositions or conjunctions: "to Paris from Rome" is not "from Paris
# to Rome". It has no ambiguous words either: "a few" is not "few", "not just" is not
# "not", and "oh" and "ok" can be Ohio and Oklahoma.
_FILLERS = frozenset("the um uh okay please really very also".split())
# Symbols, and punctuation that is part of a number or of code: C++, -5, 1.5, !=.
_SIGNS = lazy_pattern(
    r"""([^\w\s.,;:!'"()\u2010-\u2015\u2018-\u201f\u2026\u3001\u3002\uff01\uff0c-]"""
    r"""|(?<=\d)[.,:](?=\d)|[-\u2010-\u2015](?=\d)|!(?=[=\w]))"""
)


def find_duplicates(rows: Iterable[Row]) -> list[DuplicateGroup]:
    """Return groups of memories with the same words, apart from fillers.

    The newest memory of each group is kept. The comparison ignores case, accents,
    punctuation and spaces. It respects symbols, question marks and the punctuation of
    numbers. Memories of different authors, kinds or trust are never duplicates. Turns
    of a session are never merged, because they depend on their context.
    """
    groups: dict[object, list[Row]] = {}
    for row in in_slices(list(rows)):
        if row.pos is not None:
            continue
        said = _words_and_signs(row.text)
        if said:
            key = (said, *_merge_key_of_row(row))
            groups.setdefault(key, []).append(row)
    found = []
    for group in groups.values():
        if len(group) > 1:
            newest, *others = sorted(group, key=lambda row: (-row.time, -row.rid))
            found.append(DuplicateGroup(newest.id, tuple(row.id for row in others)))
    return found


def _merge_key_of_row(row: Row) -> tuple[str | None, ...]:
    """Return a key that memories must share to be merged."""
    # For a summary the key includes the session, because deleting the session deletes
    # its summaries.
    session = row.session if row.kind == SUMMARY else None
    return row.author, row.kind, row.trust, session


def _words_and_signs(text: str) -> tuple[str, ...]:
    """Return the words of a text without fillers, and its symbols, in order."""
    said: list[str] = []
    pieces = _SIGNS.split(to_nfc(text))
    for place, piece in enumerate(pieces):
        if place % 2:
            said.append(piece)
        else:
            said += [word for word in words(piece) if word not in _FILLERS]
    return tuple(said)


# Finds near-duplicate memories by the cosine of their stored vectors.

_BLOCK = 512  # rows compared at a time: a matrix of 512 x n float32


def find_near_duplicates(
    stored: Sequence[RowWithVector], model: int, threshold: float
) -> list[DuplicateGroup]:
    """Return groups of facts with similar vectors.

    The newest fact of a group is kept. Every other fact of the group has at least the
    threshold as its cosine with the kept fact; chains of neighbours do not count. Facts
    of different authors, kinds or trust are never merged. Neither are two facts that
    differ in a number or a negation, of which only one is a question, or that have the
    same words in another order. Turns of a session are never merged, and vectors of
    other models are ignored.
    """
    classes: dict[object, list[RowWithVector]] = {}
    for entry in in_slices(list(stored)):
        row = entry.row
        if row.pos is None and entry.vec and entry.model == model:
            said = (*_merge_key_of_row(row), *statement_key(row.text))
            classes.setdefault(said, []).append(entry)
    found: list[DuplicateGroup] = []
    for entries in classes.values():
        if len(entries) > 1:
            entries.sort(key=lambda entry: (-entry.row.time, -entry.row.rid))
            found += _near_duplicate_groups(entries, threshold)
    return found


def _near_duplicate_groups(
    entries: list[RowWithVector], threshold: float
) -> list[DuplicateGroup]:
    vectors = _unit_statement_vectors([entry.vec or b"" for entry in entries])
    order = [tuple(words(few_marks(entry.row.text))) for entry in entries]
    free = np.ones(len(entries), bool)
    found = []
    for begin in range(0, len(entries), _BLOCK):
        cosines = vectors[begin : begin + _BLOCK] @ vectors.T
        for at, near in enumerate(cosines, begin):
            if not free[at]:
                continue
            free[at] = False
            candidates = np.flatnonzero(free & (near >= threshold))
            others = [
                int(i)
                for i in candidates
                if not has_reordered_words(order[at], order[i])
            ]
            if others:
                free[others] = False
                found.append(
                    DuplicateGroup(
                        entries[at].row.id,
                        tuple(entries[i].row.id for i in others),
                        float(min(near[i] for i in others)),
                    )
                )
    return found


# Proposes statements that may contradict each other; changes nothing.

_STATEMENTS = 5_000  # the newest ones that are compared with each other
_PARTNERS = 10  # a statement is compared with so many others
_FREQUENT = 50  # a word in more statements selects no pairs
_LEAST_COSINE = 0.5  # below it no likeness reaches PROPOSED


def find_conflicts(memory: Writes, key: Key, most: int, scope: str) -> list[Conflict]:
    """Return pairs of a user's statements that may contradict each other."""
    index = memory.search_index
    with memory.read_committed_state(key) as (reads, now):
        stored = reads.facts_of(*key, now)
    seen = [
        entry
        for entry in in_slices(stored)
        if is_statement(entry.row) and memory.rights.sees(entry.row.trust, "live")
    ]
    seen.sort(key=lambda entry: (entry.row.time, entry.row.rid))
    seen = seen[-_STATEMENTS:]
    model = index.model.id if index.model and index.scoring.known_model else None
    with_vector = [
        at for at, entry in enumerate(seen) if entry.vec and entry.model == model
    ]
    pairs = _pairs_by_vectors(seen, with_vector)
    if len(with_vector) < len(seen):
        by_words = _pairs_by_words([entry.row for entry in seen])
        pairs |= dict.fromkeys(by_words - pairs.keys())
    found = []
    for (first, second), cosine in in_slices(list(pairs.items())):
        earlier, later = seen[first].row, seen[second].row
        like = text_likeness(later.text, earlier.text, cosine)
        if like.score >= PROPOSED:
            found.append((like.score, later, earlier, like.says))
    found.sort(key=lambda each: (-each[0], -each[1].time, each[1].id, each[2].id))
    return [
        Conflict(
            entry_of_row(earlier, scope=scope),
            entry_of_row(later, scope=scope),
            score,
            says,
        )
        for score, later, earlier, says in found[:most]
    ]


def _pairs_by_vectors(
    stored: Sequence[RowWithVector], places: Sequence[int]
) -> dict[tuple[int, int], float | None]:
    """Return the pairs of each statement with its nearest ones, and their cosines."""
    found: dict[tuple[int, int], float | None] = {}
    if len(places) < 2:
        return found
    vectors = _unit_statement_vectors([stored[at].vec or b"" for at in places])
    for begin in range(0, len(places), _BLOCK):
        cosines = vectors[begin : begin + _BLOCK] @ vectors.T
        for at, near in in_slices(list(enumerate(cosines, begin))):
            others = np.flatnonzero(near >= _LEAST_COSINE)
            for other in others[np.argsort(-near[others])][: _PARTNERS + 1]:
                if other != at:
                    first, second = sorted((int(places[at]), int(places[other])))
                    found[first, second] = float(near[other])
    return found


def _pairs_by_words(rows: Sequence[Row]) -> set[tuple[int, int]]:
    """Return the pairs of each statement with those that share most words with it."""
    by_term: defaultdict[int, list[int]] = defaultdict(list)
    for at, row in in_slices(list(enumerate(rows))):
        for term in dict.fromkeys(memory_terms(row.text[:1_000], None, None)):
            by_term[term].append(at)
    shared: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for places in in_slices(list(by_term.values())):
        if len(places) <= _FREQUENT:
            for first, second in combinations(places, 2):
                shared[first][second] += 1
                shared[second][first] += 1
    return {
        (min(at, other), max(at, other))
        for at, partners in shared.items()
        for other, _ in partners.most_common(_PARTNERS)
    }


def _unit_statement_vectors(vectors: list[bytes]) -> NDArray[np.float32]:
    """Return stored vectors as rows of length 1, or 0."""
    matrix = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0, norms, 1), np.float32)


# The schedule and the options of automatic consolidation.

Fold = Literal["sessions", "summaries", "facts"]

SESSIONS: tuple[Fold, ...] = ("sessions",)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConsolidationPlan(Shown):
    """Scheduled consolidation of every user whose memories changed.

    Attributes:
        every: The shortest time between two runs on one file, across all processes:
            seconds, a timedelta or "86400s".
        older_than: Summarize memories older than this: seconds, a timedelta or "30d".
            None summarizes nothing.
        fold: The memories to summarize: any of "sessions", "summaries" and "facts".
        merge: Merge facts with the same words, apart from fillers.
        similarity: Also merge facts with at least this cosine, in (0, 1]; None does
            not. Check the value with a dry run of `consolidate` first.
    """

    every: float | timedelta | str = "86400s"
    older_than: float | timedelta | str | None = None
    fold: Collection[Fold] = SESSIONS
    merge: bool = True
    similarity: float | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: A value is not allowed.
        """
        make_fields_exact(self)
        try:
            checked_kinds_to_summarize(self.fold)
            checked_merge_similarity(self.similarity)
            if self.older_than is not None:
                ttl_seconds(self.older_than, "older_than")
            self.seconds_between()
        except (errors.InvalidArgumentError, errors.InvalidTypeError) as error:
            raise errors.ConfigError(f"consolidation: {error}") from None

    def seconds_between(self) -> float:
        """Return the shortest time between two runs, in seconds."""
        return ttl_seconds(self.every, "every")


def checked_kinds_to_summarize(fold: object) -> frozenset[str]:
    """Return the kinds of memories to summarize, checked."""
    known = get_args(Fold)
    if isinstance(fold, list | tuple | set | frozenset):
        names = [exact(name) for name in fold]
        if all(isinstance(name, str) and name in known for name in names):
            return frozenset(names)
    raise errors.InvalidArgumentError(f"fold: expected some of {', '.join(known)}")


def checked_merge_similarity(value: Any) -> float | None:
    """Return the least cosine of facts to merge, or None, checked."""
    value = exact(value)
    if value is None:
        return None
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= 1
    ):
        return float(value)
    raise errors.InvalidArgumentError(
        "similarity: expected a number above 0 and at most 1"
    )


Key = tuple[str, str]

_log = logging.getLogger("vecall")

_PROPOSED = 20  # most pairs of a dry run that may contradict each other
_FOLDED_AT_ONCE = 50  # most facts or summaries that one summary replaces


class ConsolidationRequest(NamedTuple):
    """The arguments of `consolidate`; not checked yet."""

    older_than: object = None
    summarizer: SummaryProvider | None = None
    merge: object = True
    similarity: object = None
    fold: object = SESSIONS
    dry_run: object = False


class Consolidator(OperationGroup):
    """Consolidates the memories of one user at a time."""

    def __init__(
        self, memory: Writes, observing: SessionObserver, plan: object
    ) -> None:
        """Consolidate an open file; close it if the plan cannot run there."""
        super().__init__(memory)
        self._observing = observing
        self._plan: ConsolidationPlan | None = None
        if plan is None:
            return
        if not isinstance(plan, ConsolidationPlan):
            refused = "expected a vecall.ConsolidationPlan"
        elif memory.read_only:
            refused = "a service with read_only=True writes nothing"
        elif plan.older_than is not None and plan.fold and observing.summarizer is None:
            refused = "older_than needs a summarizer"
        elif plan.similarity is not None and memory.search_index.model is None:
            refused = _NO_VECTORS
        else:
            self._plan = plan
            return
        memory.close()
        raise errors.ConfigError(f"consolidation: {refused}")

    @observed("consolidate")
    async def consolidate(
        self, app_name: str, user_id: str, request: ConsolidationRequest
    ) -> Consolidation:
        """Merge duplicate memories; replace old ones with summaries."""
        dry = checked_bool(request.dry_run, "dry_run")
        checked_bool(request.merge, "merge")
        self.memory.rights.require_all_tiers()
        key = self.memory.key(app_name, user_id, write=not dry)
        similarity = checked_merge_similarity(request.similarity)
        fold = checked_kinds_to_summarize(request.fold)
        provider = checked_summarizer(request.summarizer) or self._observing.summarizer
        age = None
        if request.older_than is not None:
            age = ttl_seconds(request.older_than, "older_than")
        if age is not None and provider is None and not dry:
            raise errors.ConfigError("summarizer: summing up what is older needs one")
        if similarity is not None and self.memory.search_index.model is None:
            raise errors.ConfigError(f"similarity: {_NO_VECTORS}")
        groups, merged = await self._merge_duplicates(
            key, words=request.merge is True, similarity=similarity, dry=dry
        )
        gone = {id_ for group in groups for id_ in group.merged}
        folded, made = 0, []
        if age is not None:
            for session, rows in await self._find_old_memories(key, age, fold, gone):
                if dry:
                    folded += len(rows)
                elif provider is not None:
                    ids, count = await self._summarize(key, provider, session, rows)
                    made += ids
                    folded += count
        found = await self.conflicts(app_name, user_id, _PROPOSED) if dry else []
        found = [p for p in found if not {p.earlier.id, p.later.id} & gone]
        return Consolidation(
            merged, folded, tuple(made), groups, similarity, dry, tuple(found)
        )

    @observed("conflicts")
    async def conflicts(
        self, app_name: str, user_id: str, limit: int | None, scope: str = "user"
    ) -> list[Conflict]:
        """Return pairs of statements that may contradict each other."""
        key = self.memory.key(app_name, user_id, scope, write=False)
        most = check_top_k(limit, self.memory.limits, "limit", 20)
        return await Join(
            self.memory.threads.long(key, find_conflicts, self.memory, key, most, scope)
        )

    async def _merge_duplicates(
        self, key: Key, *, words: bool, similarity: float | None, dry: bool
    ) -> tuple[tuple[DuplicateGroup, ...], int]:
        """Merge duplicates; return the groups and the number of archived memories."""
        memory = self.memory
        if not words and similarity is None:
            return (), 0

        def find() -> tuple[list[DuplicateGroup], dict[str, bytes]]:
            with memory.read_committed_state(key) as (reads, now):
                stored = reads.facts_of(*key, now)
            groups = find_duplicates(entry.row for entry in stored) if words else []
            model = memory.search_index.model
            if similarity is not None and model is not None:
                merged = {id_ for group in groups for id_ in group.merged}
                left = [entry for entry in stored if entry.row.id not in merged]
                near = find_near_duplicates(left, model.id, similarity)
                groups = _join_duplicate_groups(groups, near)
            named = {id_ for group in groups for id_ in (group.kept, *group.merged)}
            texts = {entry.row.id: entry.row.text for entry in stored}
            return groups, {id_: store.hash_of_text(texts[id_]) for id_ in named}

        groups, hashes = await Join(memory.threads.long(key, find))
        if not dry and groups:
            job = store.MergeMemories(
                *key, [(g.kept, g.merged) for g in groups], hashes
            )
            await Join(memory.storage.submit(job))
            groups = [
                replace(group, merged=ids)
                for group, ids in zip(groups, job.merged, strict=True)
                if ids
            ]
        return tuple(groups), sum(len(group.merged) for group in groups)

    async def _find_old_memories(
        self, key: Key, age: float, fold: frozenset[str], gone: set[str]
    ) -> list[tuple[str | None, list[Row]]]:
        """Return groups of memories to summarize, each with its session."""
        before = self.memory.storage.expiry_clock.wall() - age

        def read(
            reads: store.StorageReads, now: float
        ) -> list[tuple[str | None, list[Row]]]:
            found: list[tuple[str | None, list[Row]]] = []
            if "sessions" in fold:
                found += reads.old_sessions(*key, before, now)
            if fold & {"summaries", "facts"}:
                rows = reads.old_facts(*key, before, now)
                found += _batches_to_summarize(rows, fold, gone)
            return found

        return await self.memory.read_storage(key, read)

    async def _summarize(
        self, key: Key, provider: SummaryProvider, session: str | None, rows: list[Row]
    ) -> tuple[list[str], int]:
        """Replace memories with one summary; return its ids, and their number."""
        scan = self.memory.threads.long
        events = await Join(scan(key, _memories_as_turns, rows))
        place = store.DueSession(*key, session or "-")
        call = self._observing.summarizing.summaries
        summaries = await call(provider, place, events)
        if not summaries:
            return [], 0

        def make() -> tuple[dict[str, bytes], list[store.Draft]]:
            hashes = {row.id: store.hash_of_text(row.text) for row in in_slices(rows)}
            drafts = summary_drafts(
                [merged_summary(summaries, len(rows))],
                session,
                hashes,
                source="consolidation",
                trust=lowest_trust(row.trust for row in rows),
            )
            return hashes, drafts

        folds, drafts = await Join(scan(key, make))
        ends = [row.expires_at for row in rows if row.expires_at is not None]
        if ends:
            left = min(ends) - self.memory.storage.expiry_clock.now()
            if left <= 0:
                return [], 0  # a memory expired during the summary
            drafts = [replace(draft, ttl=left) for draft in drafts]
        request = WriteRequest(folds=folds)
        written = await self.memory.write_drafts(key, drafts, request)
        return written.ids, written.folded

    async def run_consolidation_plan(self) -> int:
        """Run the plan if it is due; return the number of archived memories."""
        # An error for one user is logged and does not stop the run for other users. The
        # next run tries that user again.
        plan, memory = self._plan, self.memory
        if plan is None:
            return 0
        pause = plan.seconds_between()
        now = memory.storage.expiry_clock.wall()
        last = await memory.read_storage(
            None, lambda reads, _: reads.last_consolidation()
        )
        if last is not None and now - last < pause:
            return 0
        claimed = await Join(memory.storage.submit(store.ClaimConsolidation(last, now)))
        if not claimed.ids:
            return 0  # another process runs the plan
        age = 0.0 if plan.older_than is None else ttl_seconds(plan.older_than)
        since = None if last is None else last - age - pause
        request = ConsolidationRequest(
            older_than=plan.older_than,
            merge=plan.merge,
            similarity=plan.similarity,
            fold=plan.fold,
        )
        users = await memory.read_storage(
            None, lambda reads, _: reads.changed_users(since)
        )
        archived = 0
        for app, user in users:
            try:
                done = await self.consolidate(app, user, request)
                archived += done.merged + done.folded
            except errors.ClosedError:
                raise
            except errors.VecallError as error:
                name = type(error).__name__
                _log.warning("a user's memories could not be consolidated: %s", name)
        return archived


_NO_VECTORS = "merging by meaning needs vectors; open the file with an embedder"


def _join_duplicate_groups(
    groups: Sequence[DuplicateGroup], near: Sequence[DuplicateGroup]
) -> list[DuplicateGroup]:
    """Join groups by words with groups by meaning that share a memory."""
    by_kept = {group.kept: group for group in groups}
    found = []
    for group in near:
        merged = list(group.merged)
        for id_ in (group.kept, *group.merged):
            same = by_kept.pop(id_, None)
            merged += () if same is None else same.merged
        found.append(DuplicateGroup(group.kept, tuple(merged), group.similarity))
    return [*by_kept.values(), *found]


def _batches_to_summarize(
    rows: Iterable[Row], fold: frozenset[str], gone: set[str]
) -> Iterator[tuple[str | None, list[Row]]]:
    """Yield batches of at most 50 memories to summarize together."""
    # A batch holds facts of one author, kind and trust, or summaries of one trust.
    classes: dict[object, list[Row]] = {}
    for row in rows:
        is_summary = row.kind == SUMMARY
        if row.id in gone or ("summaries" if is_summary else "facts") not in fold:
            continue
        author = None if is_summary else row.author
        classes.setdefault((author, row.kind, row.trust), []).append(row)
    for members in classes.values():
        for begin in range(0, len(members), _FOLDED_AT_ONCE):
            batch = members[begin : begin + _FOLDED_AT_ONCE]
            if len(batch) > 1:
                yield None, batch


def _memories_as_turns(rows: list[Row]) -> list[dict[str, Any]]:
    """Return memories as the turns of a session."""
    return [
        {
            "id": row.event or row.id,
            "author": row.author,
            "timestamp": row.time,
            "content": row.text
            if row.content is None
            else store.parse_stored_object(row.content),
        }
        for row in in_slices(rows)
    ]

"""What statements may replace: shown at a write, and proposed among those stored.

Nothing is changed here. Who decides names what a memory `supersedes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vecall.concurrency.join import Join
from vecall.concurrency.time_slices import in_slices
from vecall.content import as_list
from vecall.errors import InvalidArgumentError
from vecall.ingest.passages import SUMMARY
from vecall.lexical import memory_terms
from vecall.lexical.statements import OFFERED, PROPOSED, likeness
from vecall.limits import Limits
from vecall.operations.runtime import Runtime
from vecall.operations.searches import ALONE, ALONE_BY_WORDS, Searches
from vecall.scalars import exact
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import SearchRequest, entry_from_row
from vecall.store import Draft, Row, RowWithVector
from vecall.types import Conflict, SimilarMemory
from vecall.validation import check_name

Key = tuple[str, str]

BLOCK = 512
"""Rows compared at a time: a matrix of 512 x n float32."""

MOST_COMPARED = 100
"""Most memories of a call that are compared with the stored ones."""

_SHOWN = 3
_CANDIDATES = 20  # turns of chats may be among them
_STATEMENTS = 5_000  # the newest ones that are compared with each other
_PARTNERS = 10  # a statement is compared with so many others
_FREQUENT = 50  # a word in more statements selects no pairs
_LEAST_COSINE = 0.5  # below it no likeness reaches PROPOSED


def give_superseded(drafts: Sequence[Draft], ids: object, limits: Limits) -> None:
    """Set which memories the only memory of a call replaces."""
    value = exact(ids)
    named = [value] if isinstance(value, str) else as_list(value, "supersedes")
    older = [check_name(id_, "supersedes", limits) for id_ in named]
    if not older:
        return
    if len({draft.passage_of or draft.id for draft in drafts}) != 1:
        msg = "supersedes: expected a call with one memory, which replaces others"
        raise InvalidArgumentError(msg)
    first = drafts[0]
    if first.id in older:
        raise InvalidArgumentError("supersedes: must be the id of another memory")
    own = () if first.supersedes is None else (first.supersedes,)
    first.supersedes, *others = dict.fromkeys((*own, *older))
    first.also_supersedes = tuple(others)


async def similar_to(
    memory: Searches, key: Key, scope: str, written: Sequence[Draft], new: set[str]
) -> tuple[SimilarMemory, ...]:
    """Return the stored statements that a new one may replace, the likeliest first.

    The vector is that of the write. Without one, words are compared.
    """
    draft = written[0]
    known: dict[str, float | None] = {}

    async def find(search_index: SearchIndex) -> None:
        model, vector = search_index.model, None
        if draft.vec is not None and model is not None:
            vector = np.frombuffer(draft.vec, "<f4")
            vector = vector if len(vector) == model.dim else None
        request = SearchRequest(
            key,
            draft.text[: memory.limits.max_query_chars],
            _CANDIDATES + len(new),
            ranking=ALONE_BY_WORDS if vector is None else ALONE,
            vector=vector,
            by_period=False,
        )
        found = await memory.search_one(search_index, request)
        is_known = search_index.scoring.known_model
        for each in found.memories:
            known[str(each.id)] = each.similarity if is_known else None

    await memory.served(find)
    for id_ in new:
        known.pop(id_, None)
    if not known:
        return ()

    def compare() -> tuple[SimilarMemory, ...]:
        storage = memory.storage
        with storage.read(*key) as reads:
            now = storage.expiry_clock.now()
            rows = reads.find_many(*key, list(known), now, memory.rights)
        found = []
        for row in in_slices(list(filter(_is_statement, rows))):
            like = likeness(draft.text, row.text, known[row.id])
            if like.score >= OFFERED:
                found.append((like.score, row.time, row, like.says))
        found.sort(key=lambda each: each[:2], reverse=True)
        return tuple(
            SimilarMemory(entry_from_row(row, scope=scope), score, says)
            for score, _, row, says in found[:_SHOWN]
        )

    return await Join(memory.search_index.partitions.submit_scan(key, compare))


def _is_statement(row: Row) -> bool:
    """Whether a memory can be replaced: a turn was said, and a summary is remade."""
    return row.pos is None and row.kind != SUMMARY


def conflicts_of(
    runtime: Runtime, key: Key, most: int, scope: str = "user"
) -> list[Conflict]:
    """Return pairs of a user's statements that may contradict each other."""
    storage, index = runtime.storage, runtime.search_index
    with storage.read(*key) as reads:
        stored = reads.facts_of(*key, storage.expiry_clock.now())
    seen = [
        entry
        for entry in in_slices(stored)
        if _is_statement(entry.row) and runtime.rights.sees(entry.row.trust, "live")
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
        like = likeness(later.text, earlier.text, cosine)
        if like.score >= PROPOSED:
            found.append((like.score, later, earlier, like.says))
    found.sort(key=lambda each: (-each[0], -each[1].time, each[1].id, each[2].id))
    return [
        Conflict(
            entry_from_row(earlier, scope=scope),
            entry_from_row(later, scope=scope),
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
    vectors = unit_vectors([stored[at].vec or b"" for at in places])
    for begin in range(0, len(places), BLOCK):
        cosines = vectors[begin : begin + BLOCK] @ vectors.T
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


def unit_vectors(vectors: list[bytes]) -> NDArray[np.float32]:
    """Return stored vectors as rows of length 1, or 0."""
    matrix = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0, norms, 1), np.float32)

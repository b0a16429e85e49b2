"""Forgetting in two steps: propose memories, then confirm to delete them."""

from __future__ import annotations

from dataclasses import replace

from vecall.concurrency.join import Join
from vecall.content import as_list
from vecall.errors import EmbedderError, InvalidArgumentError
from vecall.limits import Limits
from vecall.operations.deletion import Deletion
from vecall.operations.near_best import Match, near_best
from vecall.operations.writes_and_searches import WritesAndSearches
from vecall.ranking.options import Ranking
from vecall.search.search_index import SearchIndex
from vecall.search.searcher import SearchRequest
from vecall.store import LASTS_S, ProposeForget
from vecall.telemetry import observed
from vecall.types import ForgetProposal, MemoryEntry
from vecall.validation import check_name, check_query, check_top_k

# A proposal contains matches only, not their neighbours.
_NEIGHBOURS = ("next", "previous", "after_question", "second", "session")
_ALONE = Ranking(weights=dict.fromkeys(_NEIGHBOURS, 0.0))


class Forgetting:
    """The forget proposals of one open file."""

    def __init__(self, memory: WritesAndSearches, deletion: Deletion) -> None:
        """Use an open file, which stores the proposals."""
        self._memory = memory
        self.telemetry = memory.telemetry
        self._deletion = deletion

    @observed("propose_forget")
    async def propose(
        self, app_name: str, user_id: str, query: str, top_k: int
    ) -> ForgetProposal:
        """Search for memories to forget, and store them as a proposal."""
        memory = self._memory
        key = memory.key(app_name, user_id, write=True)
        query = check_query(query)[: memory.limits.max_query_chars]
        # The default floors of the service do not apply to proposals.
        request = SearchRequest(
            key,
            query,
            check_top_k(top_k, memory.limits),
            ranking=_ALONE,
            explain=True,
        )
        found = await memory.served(
            lambda search_index: self._matching(search_index, request)
        )
        expires_at = memory.storage.expiry_clock.now() + LASTS_S
        if not found:
            return ForgetProposal("", [], expires_at)
        job = ProposeForget(*key, {str(memory.id): memory.text for memory in found})
        await Join(memory.storage.submit(job))
        return ForgetProposal(job.token, found, expires_at)

    async def _matching(
        self, search_index: SearchIndex, request: SearchRequest
    ) -> list[MemoryEntry]:
        """Return the memories near the best match.

        If the embedder fails, the search uses words only.
        """
        find = search_index.recall.candidates
        try:
            found = await self._memory.search_one(search_index, request, find)
        except EmbedderError:
            words = replace(request.ranking, fusion="words")
            by_words = request._replace(ranking=words)
            found = await self._memory.search_one(search_index, by_words, find)
        matches = [_match(memory) for memory in found.memories]
        near = near_best(matches)
        return [
            replace(memory, explanation=None)
            for memory, is_near in zip(found.memories, near, strict=True)
            if is_near
        ]

    @observed("confirm_forget", int)
    async def confirm(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> int:
        """Delete some or all proposed memories; return the number deleted."""
        key = self._memory.key(app_name, user_id, write=True)
        check_name(token, "token", self._memory.limits)
        chosen = chosen_ids(ids, self._memory.limits)
        return await self._deletion.delete_proposed(key, token, chosen)


def chosen_ids(ids: object, limits: Limits) -> list[str] | None:
    """Return the ids that a caller chose from a proposal; None selects all.

    Raises:
        InvalidTypeError: The ids are not a sequence of strings.
        InvalidArgumentError: The sequence is empty, or an id is invalid.
    """
    if ids is None:
        return None
    chosen = [check_name(id_, "ids", limits) for id_ in as_list(ids, "ids")]
    if not chosen:
        msg = "ids: expected at least one id; omit ids to delete all proposed memories"
        raise InvalidArgumentError(msg)
    return list(dict.fromkeys(chosen))


def _match(memory: MemoryEntry) -> Match:
    explanation = memory.explanation or {}
    coverage = explanation["query_coverage"]
    return Match(coverage, memory.similarity, explanation["vectors"])

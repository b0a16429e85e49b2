"""Forgetting in two steps over a vector store: propose, then confirm.

Proposals are in RAM. Their number is limited.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from vecall.errors import InvalidArgumentError, NotFoundError
from vecall.lexical import content_words
from vecall.operations.forgetting import chosen_ids
from vecall.operations.near_best import Match, near_best
from vecall.services.vector_store_memory import VectorStoreMemory
from vecall.store import LASTS_S, Draft
from vecall.types import ForgetProposal, MemoryEntry
from vecall.validation import check_name, check_query, check_top_k
from vecall.vector_store import VectorStoreFilter, needed_method

_SAMPLE = 50  # nearest memories, to estimate the user's usual similarity
_MAX_USER_PROPOSALS = 20
_MAX_PROPOSALS = 1_000


@dataclass(frozen=True, slots=True)
class _Proposal:
    owner: tuple[str, str]
    shown: dict[str, str]  # texts by id
    expires_at: float


class VectorStoreForgetting:
    """The proposals of one service. Thread-safe."""

    def __init__(self, memory: VectorStoreMemory) -> None:
        """Create an object without proposals."""
        self._memory = memory
        self._lock = threading.Lock()
        self._proposals: OrderedDict[str, _Proposal] = OrderedDict()

    async def propose(
        self, app_name: str, user_id: str, query: str, top_k: int
    ) -> ForgetProposal:
        """Search for the memories to forget, and store them as a proposal."""
        memory = self._memory
        memory.check(app_name, user_id)
        needed_method(memory.store, "delete", "propose_forget")
        check_query(query)
        count = check_top_k(top_k, memory.limits)
        scope = VectorStoreFilter(app_name=app_name, user_id=user_id)
        found = await memory.near(scope, query, max(count, _SAMPLE))
        near = near_best(matches(query, found))
        meant = [each for each, is_near in zip(found, near, strict=True) if is_near][
            :count
        ]
        expires_at = memory.expiry_clock.now() + LASTS_S
        if not meant:
            return ForgetProposal("", [], expires_at)
        shown = {str(each.id): each.text for each in meant}
        token = secrets.token_urlsafe(9)
        with self._lock:
            self._proposals[token] = _Proposal((app_name, user_id), shown, expires_at)
            self._drop_old()
        return ForgetProposal(token, meant, expires_at)

    async def confirm(
        self, app_name: str, user_id: str, token: str, ids: object
    ) -> tuple[int, list[str]]:
        """Delete some or all proposed memories; return the count and the ids."""
        memory = self._memory
        memory.check(app_name, user_id)
        check_name(token, "token", memory.limits)
        chosen = chosen_ids(ids, memory.limits)
        proposal = self._take((app_name, user_id), token, chosen)
        meant = list(proposal.shown) if chosen is None else chosen
        try:
            count = await memory.delete(app_name, user_id, meant, "confirm_forget")
        except BaseException:
            # Some memories may be deleted; the same token deletes the rest.
            with self._lock:
                self._proposals[token] = proposal
                self._proposals.move_to_end(token, last=False)
            raise
        return count, meant

    def changed(self, app: str, user: str, drafts: Sequence[Draft]) -> None:
        """Invalidate proposals of memories whose text has changed."""
        texts = {draft.id: draft.text for draft in drafts}
        with self._lock:
            for token, proposal in list(self._proposals.items()):
                shown = proposal.shown
                if proposal.owner == (app, user) and any(
                    texts.get(id_, text) != text for id_, text in shown.items()
                ):
                    del self._proposals[token]

    def _take(
        self, owner: tuple[str, str], token: str, chosen: Sequence[str] | None
    ) -> _Proposal:
        now = self._memory.expiry_clock.now()
        with self._lock:
            proposal = self._proposals.get(token)
            if (
                proposal is None
                or proposal.owner != owner
                or proposal.expires_at <= now
            ):
                msg = "token: confirms nothing, or no longer; propose it again"
                raise NotFoundError(msg)
            if chosen is not None and not proposal.shown.keys() >= set(chosen):
                msg = "ids: expected ids of the memories that were proposed"
                raise InvalidArgumentError(msg)
            return self._proposals.pop(token)

    def _drop_old(self) -> None:
        now = self._memory.expiry_clock.now()
        _, newest = next(reversed(self._proposals.items()))
        for token in [
            token for token, each in self._proposals.items() if each.expires_at <= now
        ]:
            del self._proposals[token]
        own = [
            token
            for token, each in self._proposals.items()
            if each.owner == newest.owner
        ]
        for token in own[:-_MAX_USER_PROPOSALS]:
            del self._proposals[token]
        while len(self._proposals) > _MAX_PROPOSALS:
            self._proposals.popitem(last=False)


def matches(query: str, found: Sequence[MemoryEntry]) -> list[Match]:
    """Return how well memories match a query, by words and by cosine.

    The user's usual similarity is the lowest cosine of the memories found. It is capped
    at half of the best cosine, because all memories of a user may be similar.
    """
    if not found:
        return []
    query_words = set(content_words(query))
    cosines = [each.similarity or 0.0 for each in found]
    usual = min(*cosines, max(cosines) / 2)
    return [
        Match(
            len(query_words & set(content_words(each.text))) / max(len(query_words), 1),
            cosine,
            max(cosine - usual, 0.0),
        )
        for each, cosine in zip(found, cosines, strict=True)
    ]

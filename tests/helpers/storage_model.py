"""A storage as plain dictionaries: what each job does, said a second time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b

TTL_S = 50.0
LEASE_S = 20.0
DELAY_S = 30.0


def vector_of(text: str) -> bytes:
    """What stands for the vector of a text: four finite floats."""
    return b"".join(
        bytes([byte, 0, 128, 63])
        for byte in blake2b(text.encode(), digest_size=4).digest()
    )


@dataclass
class Memory:
    """A memory that the storage holds, in any state."""

    text: str
    state: str = "live"
    uses: int = 0
    expires_at: float | None = None
    vec: bytes | None = None
    is_turn: bool = False


@dataclass
class Waiting:
    """A session of which turns wait."""

    seen: set[str] = field(default_factory=set)
    turns: dict[str, dict[str, object]] = field(default_factory=dict)
    due_at: float | None = None


@dataclass
class User:
    """One user; dictionaries are in the order of making."""

    memories: dict[str, Memory] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, Waiting] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)  # of the turns

    def place(self, turns: list[str]) -> None:
        """Turns of a call go right before the next known one, or else to the end.

        Turns in another order than before take that of the call. The others stay
        behind the turn that they followed.
        """
        known = [id_ for id_ in self.order if id_ in turns]
        if known != [id_ for id_ in turns if id_ in self.order]:
            followers: dict[str | None, list[str]] = {None: []}
            leader = None
            for id_ in self.order:
                if id_ in turns:
                    leader = id_
                    followers[leader] = []
                else:
                    followers[leader].append(id_)
            self.order = followers[None]
            for id_ in turns:
                self.order += [id_, *followers.get(id_, [])]
            return
        end = len(self.order)
        for id_ in reversed(turns):
            if id_ in self.order:
                end = self.order.index(id_)
            else:
                self.order.insert(end, id_)

    def add(
        self,
        id_: str,
        text: str,
        now: float,
        *,
        ttl: float | None = None,
        vec: bytes | None = None,
        restore: bool = False,
        again: bool = False,
        is_turn: bool = False,
    ) -> bool:
        """Whether the memory is stored afterwards, in any state."""
        why = self.gone.get(id_)
        if why is not None:
            if not (restore or (not is_turn and (again or why == "expired"))):
                return False
            del self.gone[id_]
        end = None if ttl is None else now + ttl
        old = self.memories.get(id_)
        if old is None:
            self.memories[id_] = Memory(text, "live", 0, end, vec, is_turn)
            return True
        if end is None:
            over = old.expires_at is not None and old.expires_at <= now
            end = None if over else old.expires_at
        same = (old.text, old.expires_at) == (text, end) and not (vec and not old.vec)
        if same and not (restore and old.state == "archived"):
            return True
        self.memories[id_] = replace(
            old,
            text=text,
            state="live",
            expires_at=end,
            vec=vec or (old.vec if old.text == text else None),
        )
        return True

    def lose(self, id_: str, why: str) -> None:
        """Delete a memory."""
        del self.memories[id_]
        self.gone[id_] = why
        if id_ in self.order:
            self.order.remove(id_)

    def delete(self, ids: list[str]) -> set[str]:
        """The ids of what was there and is gone."""
        found = {id_ for id_ in ids if id_ in self.memories}
        for id_ in found:
            self.lose(id_, "deleted")
        return found

    def archive(self, ids: list[str]) -> set[str]:
        """The ids of what was live and is archived."""
        found = {id_ for id_ in ids if self.state_of(id_) == "live"}
        for id_ in found:
            self.memories[id_].state = "archived"
        return found

    def restore(self, id_: str, now: float) -> bool:
        """Whether an archived memory is live again."""
        known = self.memories.get(id_)
        if known is None or known.state != "archived" or is_over(known, now):
            return False
        known.state = "live"
        return True

    def mark(self, ids: list[str], now: float) -> set[str]:
        """The ids of what was counted."""
        found = {id_ for id_ in ids if self.is_found(id_, now)}
        for id_ in found:
            self.memories[id_].uses += 1
        return found

    def sweep(self, now: float) -> set[str]:
        """The ids of what has expired and is gone."""
        found = {id_ for id_, known in self.memories.items() if is_over(known, now)}
        for id_ in found:
            self.lose(id_, "expired")
        return found

    def buffer(
        self, session: str, turns: dict[str, dict[str, object]], now: float
    ) -> set[str]:
        """The ids of the turns that are new."""
        known = self.sessions.setdefault(session, Waiting())
        new = {id_: turn for id_, turn in turns.items() if id_ not in known.seen}
        if new:
            known.seen |= new.keys()
            known.turns |= new
            known.due_at = now + DELAY_S
        return set(new)

    def claim(self, session: str, now: float) -> bool:
        """Whether the session was due, and is leased now."""
        known = self.sessions.get(session)
        if known is None or known.due_at is None or known.due_at > now:
            return False
        known.due_at = now + LEASE_S
        return True

    def finish(self, session: str, ids: list[str]) -> bool:
        """Whether these turns waited, and do so no more."""
        known = self.sessions.get(session, Waiting())
        if not known.turns.keys() >= set(ids):
            return False
        for id_ in ids:
            del known.turns[id_]
        if not known.turns:
            known.due_at = None
        return True

    def state_of(self, id_: str) -> str | None:
        """The state of a memory; None where there is none."""
        known = self.memories.get(id_)
        return None if known is None else known.state

    def is_found(self, id_: str, now: float) -> bool:
        """Whether a memory is found by its id."""
        return self.state_of(id_) == "live" and not is_over(self.memories[id_], now)


def is_over(memory: Memory, now: float) -> bool:
    """Whether its time to live is over."""
    return memory.expires_at is not None and memory.expires_at <= now

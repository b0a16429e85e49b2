"""What a token may claim of what it writes, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, error_of, known
from helpers.memories import refuses
from vecall import InvalidArgumentError, MemoryEntry, Verdict
from vecall.filters.rights import TRUST_TIERS, cap_trust_tier, tier_exceeds
from vecall.server import create_app

MEMORIES = f"{ALICE}/memories"
WAYS = [
    ("POST", MEMORIES, "memories"),
    ("POST", f"{ALICE}/events", "events"),
    ("POST", f"{ALICE}/sessions/s/observe", "events"),
    ("POST", f"{ALICE}/sessions/s/end", "events"),
]


@pytest.fixture
def door(open_service):
    """Makes doors to one memory, each with a token of its own."""
    memory = open_service()

    def make(**bound: Any) -> Door:
        bearer, tokens = known(**bound)
        return Door(create_app(memory, tokens=tokens), bearer)

    return make


def live(door: Door) -> list[dict[str, Any]]:
    memories: list[dict[str, Any]] = door.ask("GET", MEMORIES).json()["memories"]
    return memories


@pytest.mark.parametrize(("method", "path", "field"), WAYS)
@pytest.mark.parametrize(
    "claim",
    [
        {"trust": "first-party"},
        {"trust": "operator"},
        {"source": "policy"},
        {"author": "system"},
        {"role": "system"},
    ],
)
def test_a_claim_above_the_token_is_refused_and_nothing_written(
    door, method, path, field, claim
):
    """403 that names the field; in whatever place of the body."""
    opened = door(user="alice", source="chat", author="user")
    body = {field: [{"content": "zebra"}, {"content": "zebra 2", **claim}]}
    answer = opened.ask(method, path, json=body)
    field = next(iter(claim)).replace("role", "author")
    assert error_of(answer) == (403, field)
    if path.endswith("observe"):
        opened.ask("POST", f"{ALICE}/sessions/s/end", json={})
    assert live(opened) == []


@pytest.mark.parametrize(("method", "path", "field"), WAYS)
def test_what_is_not_claimed_is_stamped(door, method, path, field):
    """Trust, source and author of the token are those of all that it writes."""
    opened = door(user="alice", source="chat", author="user")
    body = {field: [{"content": "zebra"}, {"content": "gnu", "trust": "unknown"}]}
    assert opened.ask(method, path, json=body).status_code in (200, 201)
    opened.ask("POST", f"{ALICE}/sessions/s/end", json={})
    told = {each["content"]: each for each in live(opened)}
    assert told["zebra"]["trust"] == "unverified"
    assert told["gnu"]["trust"] == "unknown"
    for each in told.values():
        assert (each["source"], each["author"]) == ("chat", "user")


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({}, None),
        ({"user": "alice"}, "unverified"),
        ({"user": "alice", "trust": "first-party"}, "first-party"),
        ({"trust": "third-party-public"}, "third-party-public"),
    ],
)
def test_the_ceiling_of_a_token_depends_on_what_it_opens(door, bound, expected):
    """A backend's is free, a user's unverified, unless it says more or less."""
    opened = door(**bound)
    body = {"memories": ["zebra"]}
    assert opened.ask("POST", MEMORIES, json=body).status_code == 201
    (memory,) = live(opened)
    assert memory.get("trust") == expected


@pytest.mark.parametrize("before", ["first-party", "operator", "unknown", None])
def test_a_correction_has_no_more_trust_than_its_writer(door, before):
    """The words are the user's now; what was trusted less stays so."""
    backend, user = door(), door(user="alice")
    told = {"content": "zebra", "id": "f", **({"trust": before} if before else {})}
    body = {"memories": [told]}
    assert backend.ask("POST", MEMORIES, json=body).status_code == 201
    answer = user.ask("PATCH", f"{MEMORIES}/f", json={"content": "gnu"})
    assert answer.status_code == 200
    lowered = before in ("first-party", "operator")
    expected = "unverified" if lowered else before
    assert answer.json().get("trust") == expected


@pytest.mark.parametrize("change", [{"author": "system"}, {"source": None}])
def test_a_correction_does_not_change_what_the_token_is_bound_to(door, change):
    """403, and the memory stays as it was."""
    opened = door(user="alice", source="chat", author="user")
    body = {"memories": [{"content": "zebra", "id": "f"}]}
    assert opened.ask("POST", MEMORIES, json=body).status_code == 201
    before = live(opened)
    answer = opened.ask("PATCH", f"{MEMORIES}/f", json=change)
    assert error_of(answer)[0] == 403
    assert live(opened) == before


@pytest.mark.parametrize("claimed", [None, *TRUST_TIERS, "mine"])
@pytest.mark.parametrize("ceiling", TRUST_TIERS)
def test_a_hook_lowers_trust_and_never_raises_it(open_service, claimed, ceiling):
    """Verdict(trust=...) against the order of the tiers, written out."""
    service = open_service(on_write=lambda _: Verdict("allow", trust=ceiling))
    entry = MemoryEntry("zebra", id="f", trust=claimed)
    service.sync.add_memory(app_name="a", user_id="u", memories=[entry])
    stored = service.sync.get_memory(app_name="a", user_id="u", memory_id="f").trust
    order = [None, "unknown", "unverified"]
    order += ["third-party-public", "third-party-private", "first-party"]
    if claimed == "mine":
        assert stored == ceiling
    else:
        assert stored == min(claimed, ceiling, key=order.index)
    assert cap_trust_tier(claimed, ceiling) == stored
    assert not tier_exceeds(stored, ceiling)


def test_a_tier_that_is_none_is_refused(open_service):
    """By a verdict and by an update alike."""
    refuses(InvalidArgumentError, lambda: Verdict("allow", trust="operator"))
    service = open_service()
    asked = {"app_name": "a", "user_id": "u", "memory_id": "f", "content": "x"}
    refuses(
        InvalidArgumentError,
        lambda: service.sync.update_memory(**asked, max_trust="operator"),
    )

"""Nobody recalls what another user or app was told: #1019, #5294, #5295."""

from __future__ import annotations

from helpers.adk import PARROT, an_event
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("Isolation")
FEAR = "I fear parrots."


def apart(name: str, why: str, *pairs: tuple[tuple[str, str], tuple[str, str]]) -> None:
    """A check that the two of each pair of app and user never meet."""

    async def run(place: Place) -> None:
        memory = place.open()
        for one, other in pairs:
            here = {"app_name": one[0], "user_id": one[1]}
            there = {"app_name": other[0], "user_id": other[1]}
            await memory.tell(an_event(PARROT, id="e1"), **here)
            assert await memory.search("parrots", **there) == []
            await memory.tell(an_event(FEAR, id="e1"), **there)
            assert await memory.texts("parrots", **here) == [PARROT]
            assert await memory.texts("parrots", **there) == [FEAR]

    SECTION.check(name, why)(run)


apart(
    "Two users, and two apps, with equal session and event ids",
    "contract; #1019: leaks between users",
    (("hotel", "alice"), ("hotel", "bob")),
    (("bank", "carol"), ("shop", "carol")),
)
apart(
    "a and b/c, a/b and c",
    "google-adk's fix of keys joined by '/'",
    (("a", "b/c"), ("a/b", "c")),
    (("a", "b:c"), ("a:b", "c")),
    (("ab", "d"), ("a", "bd")),
)
apart(
    "alice and alice.smith",
    "#5294, #5295",
    (("hotel", "alice"), ("hotel", "alice.smith")),
    (("alice", "alice.smith"), ("alice.alice", "smith")),
)
apart(
    "Names that differ by case, by a space or by a Unicode form",
    "contract: names are strings, compared as they are",
    (("hotel", "alice"), ("hotel", "Alice")),
    (("hotel", "bob"), ("hotel", "bob ")),
    (("hotel", "Jos\u00e9"), ("hotel", "Jose\u0301")),
)
apart(
    "Names that a query language reads as patterns",
    "a user must not become everybody",
    (("hotel", "alice"), ("hotel", "%")),
    (("hotel", "a_c"), ("hotel", "abc")),
    (("hotel", "bob"), ("hotel", "*")),
    (("hotel", "carol"), ("hotel", "' OR 1=1 --")),
)

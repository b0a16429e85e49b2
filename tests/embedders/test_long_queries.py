"""A message of several sentences asks in one of them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from vecall.embedders import LocalEmbedder, has_local

if not has_local():
    pytest.skip("needs the local embedder", allow_module_level=True)

MESSAGE = (
    "Hello. I had a long day at work today. "
    "Which wine did we like so much at the restaurant by the harbour? "
    "Thank you very much in advance for your help."
)
LONGEST = [
    "Which wine did we like so much at the restaurant by the harbour?",
    "Thank you very much in advance for your help.",
]


def unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("query_map", [None, "shipped"])
def test_a_message_is_the_mean_of_itself_and_its_two_longest_sentences(query_map):
    embedder = LocalEmbedder() if query_map else LocalEmbedder(query_map=None)
    # Fewer than three sentences: what they are without any mean.
    first, second = embedder.embed_queries(LONGEST)
    whole = embedder.embed([MESSAGE])
    if query_map:
        whole = embedder._map(whole)
    (found,) = embedder.embed_queries([MESSAGE])
    wanted = unit(whole[0] + (first + second) / 2)
    assert float(found @ wanted) > 1 - 1e-5
    assert abs(float(np.linalg.norm(found)) - 1) < 1e-5


def test_a_short_query_and_a_memory_stay_as_they_are():
    embedder = LocalEmbedder(query_map=None)
    for text in ("wine", "Which wine? The red one.", "Wer. Wie. Was.", "", "..."):
        assert np.array_equal(embedder.embed_queries([text]), embedder.embed([text]))
    (memory,), (query,) = embedder.embed([MESSAGE]), embedder.embed_queries([MESSAGE])
    assert not np.array_equal(memory, query)


def test_each_query_of_several_has_its_own_sentences():
    embedder = LocalEmbedder()
    texts = [
        "wine",
        MESSAGE,
        "今日は本当に長い一日でした。どのワインが一番好きでしたか？ありがとうございました、またね。",
        "",
    ]
    together = embedder.embed_queries(texts)
    for text, row in zip(texts, together, strict=True):
        assert np.allclose(embedder.embed_queries([text])[0], row, atol=1e-5)


def test_the_sentences_of_a_text_are_found_in_linear_time():
    from vecall.embedders.local import _longest_sentences

    for text in ("a. " * 200_000, "a" * 500_000, "\n" * 500_000, ". " * 200_000):
        begin = time.process_time()
        assert len(_longest_sentences(text)) <= 2
        assert time.process_time() - begin < 2.0

"""What nobody asked for is shown only if the message asks for something remembered."""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
import time
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.tools import run
from vecall import MemoryService, Ranking, Scopes, SearchOptions
from vecall.embedders import has_local
from vecall.lexical.small_talk import asking_of_message
from vecall.other_storage.in_memory import InMemoryMemoryService
from vecall.tools import PreloadMemory, search_unasked
from vecall.types import UNSET, SearchMemoryResponse

SCOPE: dict[str, Any] = {"app_name": "app", "user_id": "alice"}
SECRET = "My passport number is X4417"
LIFE = [
    SECRET,
    "Thanks for the flowers, they are on the table",
    "Good morning! I start at the bakery at five",
    "I live in Rotterdam with my cat Bruno",
    "Ich treffe Anna jeden Freitag im Schwimmbad",
]
NOTHING = [
    "Thanks!",
    "ok",
    "👍",
    "Good morning",
    "Do that again, please",
    "Write it shorter",
    "Danke, mach es bitte kürzer",
    "Merci beaucoup !",
    "Спасибо, продолжай",
    "شكرا جزيلا",
    "谢谢！",
    "ありがとうございます！",
    "12 * 7 = ?",
    "What is 15 times 23?",
    "for i in range(10):\n    print(i ** 2)",
    "SELECT id FROM users WHERE active = 1;",
]
ASKING = {
    "What is my passport number?": SECRET,
    "passport": SECRET,
    "Where do I live?": LIFE[3],
    "What is the name of my cat?": LIFE[3],
    "Wen treffe ich im Schwimmbad?": LIFE[4],
}
MODES = [None, *(["local"] if has_local() else [])]
TURNS = ROOT / "bench/recall/conversations/turns.json"


@pytest.fixture(params=MODES, ids=str)
def memory(request):
    with MemoryService(embedder=request.param) as opened:
        opened.sync.add_memory(**SCOPE, memories=LIFE)
        yield opened


def block(memory: Any, text: str, **options: Any) -> str:
    preload = PreloadMemory(memory, "app", "alice", **options)
    return run(preload.block(text))


@pytest.mark.parametrize("text", NOTHING)
def test_a_message_that_asks_nothing_puts_nothing_into_a_prompt(memory, text):
    assert block(memory, text) == ""


@pytest.mark.parametrize(("text", "answer"), ASKING.items())
def test_a_message_that_asks_for_something_gets_it(memory, text, answer):
    assert answer in block(memory, text)


@pytest.mark.parametrize(
    "text",
    [
        "my list",
        "What are we doing tomorrow?",
        "What did I do last night?",
        "Was mache ich morgen?",
        "What does she like?",
        "passport number?",
        "which car?",
        "How is Tom?",
        "and Kim?",
        "Что я делал вчера?",
    ],
)
def test_a_question_about_somebody_is_no_small_talk(text):
    assert not asking_of_message(text).nothing


@pytest.mark.parametrize(
    "text",
    [
        "See you on Monday!",
        "Bis Mittwoch!",
        "Hasta el jueves",
        "I love it, thanks",
        "Das gef\u00e4llt mir",
        "Gosto muito",
        "Encantado de conocerte",
        "Wie viel ist 9 mal 14?",
        "¿Cuánto son 120 por 3?",
        "error: expected one of `.` or an operator, found 4",
        "while queue:\n    item = queue.pop()\n    if item is None:\n        break",
    ],
    ids=ascii,
)
def test_partings_opinions_sums_and_reports_of_programs_ask_nothing(text):
    assert asking_of_message(text).nothing


@pytest.mark.parametrize(
    "text",
    [
        "what do I love",  # without its sign
        "who did I meet on Monday",
        "wann treffe ich Anna",
        "love",  # keywords
        "Monday",
        "I love hiking",
        "see the dentist on Monday",
        "happy birthday to Anna",
        "my two sons are 12 and 9",
        "Error in the plan: call Anna",
    ],
    ids=ascii,
)
def test_what_may_name_something_to_remember_is_no_small_talk(text):
    assert not asking_of_message(text).nothing


def test_the_relevance_of_a_response_says_whether_its_query_asks(memory):
    relevance = {
        text: memory.sync.search_memory(**SCOPE, query=text).relevance
        for text in (*NOTHING, *ASKING)
    }
    assert all(0.0 < value < 1.0 for value in relevance.values())
    assert max(relevance[text] for text in NOTHING) < 0.2
    assert min(relevance[text] for text in ASKING) > 0.2


def test_a_search_that_somebody_asked_for_keeps_what_it_finds(memory):
    found = memory.sync.search_memory(**SCOPE, query="flowers table morning")
    assert {LIFE[1], LIFE[2]} <= {each.text for each in found}
    thanks = memory.sync.search_memory(**SCOPE, query="thanks")
    assert LIFE[1] in [each.text for each in thanks]


@pytest.mark.skipif(not has_local(), reason="needs the local embedder")
def test_an_unrelated_search_finds_nothing_with_the_local_embedder():
    """As by words alone; keywords and a floor of one's own find the nearest."""
    with MemoryService(embedder="local") as memory:
        memory.sync.add_memory(**SCOPE, memories=[SECRET, "We fly to Crete in June"])

        def found(query: str, **options: Any) -> list[str]:
            response = memory.sync.search_memory(**SCOPE, query=query, **options)
            return [each.text for each in response]

        for query in ("What is the capital of Peru?", "Write it shorter, please"):
            assert found(query) == []
            assert len(found(query, min_confidence=0)) == 2
            assert len(found(query, min_similarity=-1)) == 2
        assert found("Where do we go on holiday?")[0] == "We fly to Crete in June"
        assert found("holiday")[0] == "We fly to Crete in June"
        assert found("music") != []
        assert found("indentation style") != []


def test_a_floor_of_ones_own_replaces_the_policy(memory):
    assert SECRET in block(memory, "12 passport = 3 passport", min_confidence=0)
    assert block(memory, "What is my passport number?", min_confidence=1.0) == ""


def test_memories_far_below_the_best_one_are_left_out(memory):
    shown = block(memory, "What is my passport number?")
    assert SECRET in shown
    assert LIFE[4] not in shown


def test_scores_below_zero_of_a_reranker_hide_nothing():
    ranking = Ranking(reranker=lambda _, texts: [-1.0 - len(text) for text in texts])
    search = SearchOptions(ranking=ranking)
    with MemoryService(embedder=None, search=search) as memory:
        memory.sync.add_memory(**SCOPE, memories=LIFE)
        assert SECRET in block(memory, "What is my passport number?")


def test_a_scorer_of_ones_own_decides_alone():
    search = SearchOptions(scorer=lambda *_: (0.9, 0.5))
    with MemoryService(embedder=None, search=search) as memory:
        memory.sync.add_memory(**SCOPE, memories=LIFE)
        found = memory.sync.search_memory(**SCOPE, query="flowers")
        assert found.relevance is None
        assert LIFE[1] in block(memory, "flowers")
        assert block(memory, "Thanks!") == ""


def test_a_service_that_knows_no_relevance_is_silent_by_the_words_alone():
    with InMemoryMemoryService() as memory:
        memory.sync.add_memory(**SCOPE, memories=LIFE)
        assert memory.sync.search_memory(**SCOPE, query="thanks").relevance is None
        for text in NOTHING:
            assert run(search_unasked(memory, UNSET, **SCOPE, query=text)) == []
        asked = search_unasked(memory, UNSET, **SCOPE, query="passport number")
        assert [each.text for each in run(asked)] == [SECRET]


def test_a_response_can_be_copied_and_is_compared_by_its_memories(memory):
    found = memory.sync.search_memory(**SCOPE, query="passport")
    for copied in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert copied == found
        assert copied.relevance == found.relevance
    assert found.with_memories([]).relevance == found.relevance
    assert "asked" not in repr(found)
    assert SearchMemoryResponse().relevance is None


def test_several_scopes_are_as_relevant_as_the_best_of_them(open_service):
    memory = open_service(scopes=Scopes(read={"app"}, write={"app"}))
    memory.sync.add_memory(**SCOPE, memories=["zebra"])
    memory.sync.add_memory(**SCOPE, memories=LIFE, scope="app")
    found = memory.sync.search_memory(**SCOPE, query="What is my passport number?")
    assert found.memories[0].text == SECRET
    assert found.relevance > 0.2


def test_the_time_to_read_a_message_is_bounded():
    for text in ("a" * 200_000, "a.b" * 70_000, "_" * 200_000, "é" * 200_000):
        begin = time.process_time()
        asking_of_message(text)
        assert time.process_time() - begin < 1.0


def test_most_turns_of_the_bench_ask_nothing_by_their_words():
    """The rule alone; the relevance finds most of the others."""
    turns = json.loads(TURNS.read_text(encoding="utf-8"))
    talk = [each for each in turns if each["sort"] != "knowledge"]
    quiet = sum(asking_of_message(each["text"]).nothing for each in talk)
    assert quiet / len(talk) > 0.8
    assert len({each["language"] for each in turns}) >= 12
    assert len({each["text"] for each in turns}) == len(turns)


def test_words_in_another_order_ask_the_same():
    chosen = random.Random(7)
    for text in NOTHING[:9]:
        words = re.findall(r"\w+", text)
        chosen.shuffle(words)
        assert (
            asking_of_message(" ".join(words)).nothing
            == asking_of_message(" ".join(words[::-1])).nothing
        )

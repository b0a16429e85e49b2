"""The conversations that recall is measured with are as the docs describe them."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from helpers.paths import ROOT
from vecall.evaluation.datasets import Conversation, read_jsonl

FOLDER = ROOT / "bench/recall/conversations"
if not FOLDER.is_dir():
    pytest.skip("the bench is not here", allow_module_level=True)

ASSISTANTS = {  # users with an assistant over 20 sessions, and their languages
    "long-assistants": {
        **dict.fromkeys(("aldous", "devika", "maeve", "otis", "priscilla"), "English"),
        "defne": "Turkish",
        "ginevra": "Italian",
        "katrin": "German",
        "solene": "French",
        "tomas": "Spanish",
    },
    "held-out-assistants": {"lidiya": "Russian", "yusra": "Arabic"},
}
# Words that are common in one of these languages and rare in the others.
COMMON = {
    "English": {"the", "and", "of", "is", "you", "that"},
    "German": {"und", "der", "ist", "nicht", "ich", "das"},
    "French": {"et", "les", "est", "pas", "je", "pour"},
    "Spanish": {"el", "los", "y", "con", "es", "las"},
    "Italian": {"il", "di", "che", "della", "sono", "non"},
    "Turkish": {"ve", "bir", "bu", "için", "ne", "mi"},
    "Russian": {"и", "не", "что", "на", "это", "я"},
    "Arabic": {"في", "من", "على", "أن", "ما", "لا"},
}
# Users, turns and memories, questions, and how many of these have no answer.
COUNTS = {
    "people": (5, 795, 170, 30),
    "assistants": (5, 733, 170, 30),
    "long-assistants": (10, 1640, 1400, 150),
    "held-out-assistants": (2, 316, 280, 30),
    "languages": (6, 534, 156, 30),
    "sentences": (14, 630, 420, 56),
    "facts": (6, 360, 240, 36),
    "documents": (4, 168, 160, 20),
    "code": (3, 135, 105, 15),
    "passing": (4, 100, 150, 0),
}


def read(name: str) -> list[Conversation]:
    return read_jsonl(FOLDER / f"{name}.jsonl", "eval")


def said_by(conversation: Conversation) -> list[str]:
    return [
        str(event.content)
        for session in conversation.sessions
        for event in session.events
    ]


def test_each_file_has_its_users_memories_and_questions():
    found = {}
    for file in sorted(FOLDER.glob("*.jsonl")):
        conversations = read(file.stem)
        questions = [one for each in conversations for one in each.questions]
        turns = sum(len(said_by(each)) + len(each.memories) for each in conversations)
        unanswerable = sum(not one.evidence for one in questions)
        found[file.stem] = (len(conversations), turns, len(questions), unanswerable)
    assert found == COUNTS
    with_assistant = [COUNTS[name] for name in ASSISTANTS]
    assert sum(counts[2] for counts in with_assistant) == 1_680
    assert sum(counts[3] for counts in with_assistant) == 180


@pytest.mark.parametrize("name", ASSISTANTS)
def test_users_speak_their_language_with_an_assistant_over_twenty_sessions(name):
    languages = {}
    for each in read(name):
        assert len(each.sessions) == 20
        for session in each.sessions:
            authors = [event.author for event in session.events]
            assert authors[0] == "user"
            assert len(set(authors)) == 2
        words = Counter(re.findall(r"\w+", " ".join(said_by(each)).lower()))
        counts = {
            language: sum(words[word] for word in common)
            for language, common in COMMON.items()
        }
        languages[each.user_id] = max(counts, key=counts.__getitem__)
        second = sorted(counts.values())[-2]
        assert counts[languages[each.user_id]] > 1.2 * second, counts
    assert languages == ASSISTANTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_evidence_is_of_the_user_and_a_question_without_an_answer_says_so(name):
    for each in read(name):
        ids = [
            str(event.id) for session in each.sessions for event in session.events
        ] + [str(memory.id) for memory in each.memories]
        assert len(ids) == len(set(ids))
        texts = [question.text for question in each.questions]
        assert all(text.strip() for text in texts)
        assert len(texts) == len(set(texts))
        for question in each.questions:
            assert question.evidence <= set(ids)
            assert (question.category == "none") == (not question.evidence)
        assert any(question.evidence for question in each.questions)


@pytest.mark.parametrize("name", COUNTS)
def test_times_are_in_the_order_of_each_session(name):
    for each in read(name):
        starts = []
        for session in each.sessions:
            times = [at(event.timestamp) for event in session.events]
            assert times == sorted(times)
            starts.append(times[0])
        assert starts == sorted(starts)
        if name in ASSISTANTS:
            assert starts[-1] - starts[0] > timedelta(days=60)


def at(timestamp: object) -> datetime:
    if isinstance(timestamp, (int, float)):
        return datetime.fromtimestamp(timestamp, timezone.utc)
    return datetime.fromisoformat(str(timestamp).replace("Z", "+00:00"))

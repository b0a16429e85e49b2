"""A query for a list gets as many memories as match, and the number of the others."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest
from helpers.memories import ALICE
from helpers.tools import SCOPE, call, ids
from vecall.lexical.features import query_asks_list
from vecall.tools import LoadMemory, RecallMemory

LISTS = """
Which of my friends play chess?|How often did I go to yoga?|How many times did I move?
All my allergies|Give me a summary of our trip|Welche meiner Freunde spielen Schach?
Wie oft war ich beim Yoga?|Alle meine Allergien|Fasse unsere Reise zusammen
Lesquels de mes amis jouent ?|Combien de fois ai-je déménagé ?|Toutes mes allergies
¿Cuáles de mis amigos juegan?|¿Cuántas veces me mudé?|Todas mis alergias
Quali dei miei amici giocano?|Quante volte mi sono trasferito?|Tutte le mie allergie
Quais dos meus amigos jogam?|Quantas vezes me mudei?|Todas as minhas alergias
Welke van mijn vrienden schaken?|Hoe vaak was ik bij yoga?|Al mijn allergieën
Vilka av mina vänner spelar?|Hur ofta var jag på yoga?|Alla mina allergier
Кто из моих друзей играет?|Как часто я хожу на йогу?|Все мои аллергии
Hangi arkadaşlarım oynuyor?|Kaç kez taşındım?|Tüm alerjilerim
我有哪些过敏？|我搬过几次家？|总结我们的旅行
私は何回引っ越しましたか？|アレルギーをすべて教えて|旅行を要約して
나는 얼마나 자주 요가에 갔어?|내 모든 알레르기|여행을 요약해 줘
"""
OTHERS = """
When is the wedding?|How many eggs do I need?|What is all this about?|Is it all over?
Wann ist die Hochzeit?|Où est-ce que j'habite ?|Quel est le résultat ?
¿Quién es mi médico?|Chi è il medico?|Qual é o número?|Kim doktor?|Кто мой врач?
我的医生是谁？|医者は誰ですか？|의사는 누구야?
"""


def questions(text: str) -> list[str]:
    return [each for line in text.split("\n") for each in line.split("|") if each]


@pytest.mark.parametrize("query", questions(LISTS))
def test_lists_are_asked_for_in_thirteen_languages(query):
    assert query_asks_list(query)


@pytest.mark.parametrize("query", questions(OTHERS))
def test_other_questions_ask_for_one_thing(query):
    assert not query_asks_list(query)


@pytest.fixture
def memory(open_service):
    service = open_service()
    visits = [f"I went to the climbing hall number {n}." for n in range(30)]
    rest = [f"Remark {n} about jam and bread." for n in range(30)]
    service.sync.add_memory(**ALICE, memories=visits + rest)
    return service


def test_a_list_is_as_long_as_its_evidence_and_counts_the_rest(memory):
    recall = RecallMemory(memory, *SCOPE, max_tokens=None)
    answer = call(recall, {"query": "How often did I go to the climbing hall?"})
    assert len(answer["memories"]) == 20
    assert all("climbing" in each["text"] for each in answer["memories"])
    assert answer["left_out"] == 10
    few = call(recall, {"query": "All my remarks about number 7"})
    assert 5 <= len(few["memories"]) <= 20


def test_a_list_stays_within_the_tokens_of_an_answer(memory):
    recall = RecallMemory(memory, *SCOPE, max_tokens=600)
    answer = call(recall, {"query": "How often did I go to the climbing hall?"})
    assert 1 <= len(answer["memories"]) < 20
    assert len(answer["memories"]) + answer["left_out"] == 30


@pytest.mark.parametrize("limit", [1, 3, 20])
def test_a_limit_of_the_model_or_of_the_code_holds(memory, limit):
    query = "How often did I go to the climbing hall?"
    recall = RecallMemory(memory, *SCOPE, max_tokens=None)
    answer = call(recall, {"query": query, "limit": limit})
    assert len(answer["memories"]) == limit
    assert "left_out" not in answer
    load = LoadMemory(memory, *SCOPE, max_entries=limit, max_tokens=None)
    assert len(ids(call(load, {"query": query}))) == limit
    narrow = RecallMemory(memory, *SCOPE, max_limit=limit, max_tokens=None)
    assert len(ids(call(narrow, {"query": query}))) == limit


def test_other_questions_have_five_answers(memory):
    recall = RecallMemory(memory, *SCOPE, max_tokens=None)
    answer = call(recall, {"query": "When was I in the climbing hall?"})
    assert len(answer["memories"]) == 5
    assert "left_out" not in answer

"""Features of a text other than its words: it is a question, it names a time.

Each feature is a mark: a term that differs from every word's. The engine indexes the
marks of a row like its words. A query lists the marks that it favours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from vecall.clock import Period
from vecall.lexical.tokenizer import ORDINALS
from vecall.text import lazy_pattern, normalise, split_sentences

_WHOLE = (1 << 63) - 1  # the highest bit is `stems.PART`


def mark_hash(name: str) -> int:
    """Return the 63-bit hash of a mark; the hash function is not that of words."""
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, person=b"m")
    return int.from_bytes(digest.digest(), "little") & _WHOLE or 1


QUESTION = mark_hash("question")
TIME = mark_hash("time")
DATED = mark_hash("dated")

CLOSING = (
    "\"'\u2018-\u201f\u00ab\u00bb\u2039\u203a\u300d\u300f)\\]\u3002.!\u2026\\s"
    "\u200d\u2600-\u27bf\U0001f1e6-\U0001faff\ufe0f"
)
_QUESTION_SIGNS = ("?", "\uff1f", "\u061f", "\u304b\u3002")
_ASKS = lazy_pattern(rf"(?:[?\uff1f\u061f]|\u304b\u3002)[{CLOSING}]*\Z")

# Expressions of time. Three lists: words in Latin letters (English, German, Spanish,
# French, Italian, Portuguese), as `split_words` returns them; numbers; and Russian,
# Chinese, Japanese and Korean.
TIME_WORDS = frozenset(
    """
    yesterday today tomorrow tonight last next ago since recently morning
    week weeks month months year years day days weekend weekends
    monday tuesday wednesday thursday friday saturday sunday
    january february march april june july august september october november december
    gestern heute morgen letzte letzten letzter letztes nachste nachsten nachster
    nachstes seit woche wochen monat monate monats monaten jahr jahre jahren tag tage
    tagen wochenende montag dienstag mittwoch donnerstag freitag samstag sonntag
    januar februar marz mai juni juli oktober dezember
    ayer hoy manana semana semanas mes meses ano anos dia dias lunes martes miercoles
    jueves viernes sabado domingo enero febrero marzo abril mayo junio julio agosto
    septiembre octubre noviembre diciembre
    hier demain semaine semaines mois annee annees an ans jour jours lundi mardi
    mercredi jeudi vendredi samedi dimanche janvier fevrier mars avril juin juillet aout
    septembre octobre novembre decembre
    ieri oggi domani settimana settimane mese mesi anno anni giorno giorni
    ontem hoje amanha segunda terca quarta quinta sexta
    """.split()
) - {"an"}
_TIME_NUMBERS = lazy_pattern(
    rf"\b(?:(?:19|20)\d\d|\d{{1,2}}(?:{'|'.join(ORDINALS)}))\b"
    r"|\d{1,2}[./]\d{1,2}(?:[./]|\b)|\d{1,2}:\d\d"
)
# Letters of which each of the expressions below has one.
_ELSEWHERE = lazy_pattern("[\u0400-\u04ff\u4e00-\u9fff\uac00-\ud7a3]")
_TIME_ELSEWHERE = lazy_pattern(
    r"""\b(?:
    вчера|сегодня|завтра|назад|недел[яюие]|неделю|месяц\w*|год\w*|лет|дн[яей]|день|
    понедельник\w*|вторник\w*|сред[ауы]|четверг\w*|пятниц\w*|суббот\w*|воскресень\w*|
    январ\w*|феврал\w*|март\w*|апрел\w*|ма[йяе]|июн\w*|июл\w*|август\w*|сентябр\w*|
    октябр\w*|ноябр\w*|декабр\w*
    )\b
    |[0-9]\s?[月日号點点時时年]|\d\s?[월일년시]
    |昨天|今天|明天|前天|后天|上周|下周|上个月|下个月|去年|明年|星期|周[一二三四五六日末]
    |昨日|今日|明日|先週|来週|先月|来月|去年|来年|曜日|週末
    |어제|오늘|내일|모레|지난|다음\s?[주달]|작년|내년|요일|주말
    """,
    re.VERBOSE,
)
_STATES = (".", "!", "\u2026", "\u0964")
_AFTER_ALL = " \n\t)\"'\u2019\u201d\u00bb"  # what may stand after the last sign
_SHORTEST_STATEMENT = 8  # words; fewer may be keywords
_MOST_SENTENCES = 2
_SENTENCE_SIGNS = ".!?\u2026\u3002\uff01\uff1f\u061f\n"
_LONGEST_QUESTION = 40  # words
_LONGEST_REQUEST = 20  # words, if the author is "user"
USER = "user"
_DIGIT = lazy_pattern(r"\d")

# Questions that ask for a time.
ASKS_TIME = lazy_pattern(
    r"""[\W_]*(?:and\s|so\s|do\s(?:you|i)\s(?:know|remember)\s)?(?:
    (?:since\s)?when\b|how\slong\b|(?:(?:on|in|at)\s)?(?:what|which)\s(?:exact\s)?
    (?:date|day|weekday|week|month|year|time)\b|
    (?:seit|bis|ab)?\s?wann\b|wie\slange\b|an\swelchem\s(?:tag|datum)\b|welches\sdatum\b|
    in\swelche[mr]\s(?:monat|jahr|woche)\b|um\swie\s?viel\suhr\b|
    (?:desde\s|hasta\s|para\s)?cuando\b|a\sque\shora\b|(?:en\s|el\s)?que\s
    (?:dia|fecha|mes|ano)\b|cuanto\stiempo\b|
    (?:depuis\s)?quand\b|(?:(?:a|en)\s)?quelle\s(?:date|heure|annee)\b|
    quel\s(?:jour|mois)\b|combien\sde\stemps\b|
    (?:da\s)?quando\b|(?:(?:in|a)\s)?che\s(?:giorno|mese|anno|ora)\b|
    (?:desde\s)?quando\b|(?:em\s)?que\s(?:dia|mes|ano)\b|a\sque\shoras\b|quanto\stempo\b|
    (?:с\sкаких\sпор|когда|как\sдолго|во\sсколько|(?:в|на)\sкако[мйе]\w*\s
    (?:месяц|год|ден|недел)|какого\sчисла|сколько\sвремени)
    )
    """,
    re.VERBOSE,
)
_ASKS_TIME_EAST = lazy_pattern(
    r"""什么时候|什麼時候|何时|何時|哪天|哪一天|哪[年月]|哪个月|几[号月点]|幾[號月點]|多久|星期几
    |いつ|何[日月年]|何曜日|どのくらいの期間
    |언제|며칠|몇\s?[시월년]|무슨\s?요일|얼마나\s?오래|얼마\s?동안
    """,
    re.VERBOSE,
)


# Questions that several memories answer together: lists, counts of times, summaries.
# A question "how many" is left out: most such numbers were said once.
_ASKS_LIST = lazy_pattern(
    r"""\b(?:
    which\sof|how\soften|how\smany\stimes|every\stime|each\stime|
    (?:all|everything)\s(?:of\s)?(?:my|our|the|his|her|their|i|we|about)|
    (?:make|give\sme)\sa\slist|list\s(?:all|every|my|the|of)|summar(?:y|i[sz]e)|overview\sof|
    welche[rs]?\s(?:von|meiner|unserer|der)|wie\soft|wie\sviele\smale?|jedes\smal|
    alles?\s(?:meine|unsere|die|was|uber)|zusammenfass\w*|fasse?\s.{1,60}\szusammen|
    (?:les)?quel(?:le)?s\sde|combien\sde\sfois|chaque\sfois|a\squelle\sfrequence|
    tou(?:te)?s\s(?:mes|nos|les)|tout\sce\sque|resum\w+|
    cual(?:es)?\sde|cuantas\sveces|con\sque\sfrecuencia|cada\svez|
    tod[ao]s\s(?:mis|nuestr[ao]s|l[ao]s)|todo\slo\sque|
    qual[ei]?\sd(?:e|ei|elle|egli)|quante\svolte|ogni\svolta|con\sche\sfrequenza|
    tutt[ei]\s(?:[ilg]|le|gli)\w*|tutto\s(?:cio|quello)|riassu\w+|riepilog\w+|
    quais\sd[aeo]s?|quantas\svezes|toda\svez|tod[ao]s\s(?:[ao]s\s)?(?:minhas|meus)|
    welke\svan|hoe\svaak|elke\skeer|al\s(?:mijn|onze|de)|samenvat\w*|vat\s.{1,60}\ssamen|
    vilka?\sav|hur\softa|varje\sgang|alla\s(?:mina|vara|de)|sammanfatt\w*|
    как\sчасто|сколько\sраз|каждый\sраз|(?:котор\w+|кто)\sиз|все\s(?:мои|наши|эти)|вс[её],?\sчто|
    перечисли\w*|подытож\w*|обобщи\w*|
    hangileri|hangisi|hangi\s\w+l[ae]r\w*|ne\ssiklikla|ka[cç]\s(?:kez|kere|defa)|her\sseferinde|tum\s\w+l[ae]r\w*|
    butun\s\w+l[ae]r\w*|ozetle\w*|listele\w*
    )""",
    re.VERBOSE,
)
_ASKS_LIST_EAST = lazy_pattern(
    r"""哪些|哪几|多少次|几次|幾次|多久一次|每次|所有|全部|列出|总结|總結|概括
    |どれくらいの頻度|何回|何度|毎回|すべて|全て|全部|一覧|まとめ|要約
    |얼마나\s?자주|몇\s?번|매번|모든|전부|목록|요약
    """,
    re.VERBOSE,
)


class QueryMarks(NamedTuple):
    """The marks and optional terms that a query favours.

    Optional terms raise a score if found and never lower it: parts of identifiers and
    German compounds, and words of the query as such parts.
    """

    time: int = 0  # the mark of rows that name a time, if the query asks for a time
    authors: tuple[int, ...] = ()  # marks of the authors that its words may name
    optional: tuple[int, ...] = ()
    period: Period | None = None  # that it names; its words are none of the terms
    earlier: tuple[Period, ...] = ()  # for a day without a year, of the years before


def text_marks(
    text: str, folded: str, words: Sequence[str], author: str | None
) -> list[int]:
    """Return the marks of a memory's text."""
    # A question contains less information than its answer. A long text that ends with a
    # question does not count as a question: it states facts before. The limit is 40
    # words. For a user's request to an assistant ("… can you help?") it is 20 words.
    found = []
    if (
        len(words) <= (_LONGEST_REQUEST if author == USER else _LONGEST_QUESTION)
        and any(map(text.__contains__, _QUESTION_SIGNS))
        and _ASKS.search(text)
    ):
        found.append(QUESTION)
    if _text_tells_time(folded, words):
        found.append(TIME)
    return found


def _text_tells_time(folded: str, words: Sequence[str]) -> bool:
    if not TIME_WORDS.isdisjoint(words):
        return True
    if _DIGIT.search(folded) and _TIME_NUMBERS.search(folded):
        return True
    if folded.isascii() or not _ELSEWHERE.search(folded):
        return False
    return _TIME_ELSEWHERE.search(folded) is not None


def query_asks_time(folded: str) -> bool:
    """Return whether a normalised query asks for a time."""
    if ASKS_TIME.match(folded):
        return True
    return not folded.isascii() and _ASKS_TIME_EAST.search(folded) is not None


def query_message(query: str) -> Literal["", "statement", "message"]:
    """Return what kind of message a query is, if it tells more than it asks; else "".

    A statement is one or two sentences of eight words or more that tell something: it
    ends like a sentence and has no question mark. Languages without spaces have none. A
    longer message has three sentences or more, questions among them.
    """
    if (
        query.rstrip(_AFTER_ALL).endswith(_STATES)
        and not any(map(query.__contains__, _QUESTION_SIGNS))
        and len(query.split()) >= _SHORTEST_STATEMENT
        and 0 < len(split_sentences(query)) <= _MOST_SENTENCES
    ):
        return "statement"
    may_be = sum(map(query.count, _SENTENCE_SIGNS)) >= _MOST_SENTENCES  # fast
    return "message" if may_be and len(split_sentences(query)) > _MOST_SENTENCES else ""


def query_asks_list(text: str) -> bool:
    """Return whether a query asks for all that there is of something."""
    folded = normalise(text)
    if _ASKS_LIST.search(folded):
        return True
    return not folded.isascii() and _ASKS_LIST_EAST.search(folded) is not None


def author_mark(stem: str) -> int:
    """Return the mark of the authors whose names contain this stem."""
    return mark_hash(f"author {stem}")

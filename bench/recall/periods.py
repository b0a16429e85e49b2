"""Does a query that names a period find what was said in it?

    python -m bench.recall.periods [--modes lexical,local] [--misses]

One user's 400 turns over 14 months are about twelve topics, which come back all the
time. Each question names a topic and a period; calendar arithmetic in this module says
which interval is meant. It is answered if one of the first five memories is a turn on
that topic in that interval, and "first" counts those whose first memory is. "Bare"
questions name a period alone; any turn in it answers them.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from vecall import Clock, MemoryEntry, MemoryService, StorageOptions
from vecall.evaluation.runner import Mode, choose_eval_modes

from bench.common import arguments

_NOW = datetime(2026, 11, 26, 18, 30, tzinfo=timezone.utc)  # a Thursday
_DAY = timedelta(days=1)
_TURNS = 400
_DAYS = 425
_TOPICS = (
    "Bruno Lisbon Kepler sauna piano Marta chess tomato Docker marathon violin Yoga"
).split()
_SAID = (
    "I spent an hour on {} and it went better than I thought.",
    "There is news about {}: the plan has changed again.",
    "We talked about {} for a while, and I am not sure what to do.",
    "Somebody asked me about {} and I had no good answer.",
    "{} was great fun, I should do more of that.",
)
_REPLIES = (
    "That sounds good, tell me more about {}.",
    "I noted it: {} matters to you.",
)

Interval = tuple[datetime, datetime]


def _days(back: int, count: int = 1) -> Interval:
    begin = _NOW.replace(hour=0, minute=0) - back * _DAY
    return begin, begin + count * _DAY


def _between(one: str, other: str) -> Interval:
    begin, end = map(datetime.fromisoformat, (one, other))
    return begin.replace(tzinfo=timezone.utc), end.replace(tzinfo=timezone.utc)


def _hours(back: int, first: int, last: int) -> Interval:
    begin = _days(back)[0]
    return begin + timedelta(hours=first), begin + timedelta(hours=last)


_YESTERDAY, _TODAY, _WEEK = _days(1), _days(0), _days(10, 7)
_MARCH = _between("2026-03-01", "2026-04-01")
_SUMMER = _between("2026-06-01", "2026-09-01")
_SINCE_MAY = _between("2026-05-01", "2027-01-01")

_ASKED: tuple[tuple[str, Interval], ...] = (
    ("What did I say about {} yesterday?", _YESTERDAY),
    ("What did I tell you about {} the day before yesterday?", _days(2)),
    ("What was that about {} today?", _TODAY),
    ("What did I say about {} last week?", _WEEK),
    ("What did we say about {} this week?", _days(3, 7)),
    ("What happened with {} last month?", _between("2026-10-01", "2026-11-01")),
    ("What happened with {} this month?", _between("2026-11-01", "2026-12-01")),
    ("What did I do with {} last year?", _between("2025-01-01", "2026-01-01")),
    ("What did I do with {} in 2025?", _between("2025-01-01", "2026-01-01")),
    ("What did I say about {} three days ago?", _days(3)),
    ("What did I say about {} two weeks ago?", _days(17, 7)),
    ("How was {} four months ago?", _between("2026-07-01", "2026-08-01")),
    ("What did I say about {} on Monday?", _days(3)),
    ("What did I say about {} last Tuesday?", _days(2)),
    ("What about {} on Sunday evening?", _hours(4, 17, 24)),
    ("What about {} last weekend?", _days(5, 2)),
    ("What did I say about {} on 24 November?", _days(2)),
    ("What did I say about {} on November 23rd?", _days(3)),
    ("What did I say about {} on 2026-11-22?", _days(4)),
    ("What did I say about {} in March?", _MARCH),
    ("What did I say about {} in December 2025?", _between("2025-12-01", "2026-01-01")),
    ("What did I say about {} in the summer?", _SUMMER),
    ("What did I do with {} last winter?", _between("2025-12-01", "2026-03-01")),
    ("What has happened to {} since May?", _SINCE_MAY),
    (
        "What did I say about {} before December 2025?",
        _between("2025-01-01", "2025-12-01"),
    ),
    ("What about {} between March and May?", _between("2026-03-01", "2026-06-01")),
    ("What did I say about {} in the last ten days?", _days(10, 12)),
    ("What did I say about {} yesterday morning?", _hours(1, 5, 12)),
    ("Was habe ich gestern über {} gesagt?", _YESTERDAY),
    ("Was habe ich vorgestern über {} gesagt?", _days(2)),
    ("Was war letzte Woche mit {}?", _WEEK),
    ("Was war vor drei Tagen mit {}?", _days(3)),
    ("Was war im März mit {}?", _MARCH),
    ("Qu'est-ce que j'ai dit hier sur {} ?", _YESTERDAY),
    ("Qu'est-ce que j'ai dit la semaine dernière de {} ?", _WEEK),
    ("Qu'ai-je dit il y a trois jours de {} ?", _days(3)),
    ("¿Qué dije ayer sobre {}?", _YESTERDAY),
    ("¿Qué dije la semana pasada sobre {}?", _WEEK),
    ("¿Qué pasó con {} en marzo?", _MARCH),
    ("Che cosa ho detto ieri di {}?", _YESTERDAY),
    ("Che cosa ho detto la settimana scorsa di {}?", _WEEK),
    ("O que eu disse ontem sobre {}?", _YESTERDAY),
    ("O que eu disse há três dias sobre {}?", _days(3)),
    ("Wat zei ik gisteren over {}?", _YESTERDAY),
    ("Wat zei ik vorige week over {}?", _WEEK),
    ("Vad sa jag i går om {}?", _YESTERDAY),
    ("Vad sa jag förra veckan om {}?", _WEEK),
    ("Что я вчера говорил о {}?", _YESTERDAY),  # noqa: RUF001
    ("Что было на прошлой неделе с {}?", _WEEK),  # noqa: RUF001
    ("Dün {} hakkında ne dedim?", _YESTERDAY),  # noqa: RUF001
    ("Geçen hafta {} hakkında ne dedim?", _WEEK),  # noqa: RUF001
    ("我昨天说了什么关于{}的事?", _YESTERDAY),
    ("上周{}怎么样?", _WEEK),
    ("三天前{}怎么样?", _days(3)),
    ("昨日{}について何を話しましたか?", _YESTERDAY),
    ("先週{}はどうでしたか?", _WEEK),
    ("어제 {} 이야기는 뭐였지?", _YESTERDAY),
    ("지난주 {} 이야기는 뭐였지?", _WEEK),
)
_BARE: tuple[tuple[str, Interval], ...] = (
    ("What did we talk about yesterday?", _YESTERDAY),
    ("What did I do three days ago?", _days(3)),
    ("Remind me of last week", _WEEK),
    ("What happened in March?", _MARCH),
    ("last Monday", _days(3)),
    ("Worüber haben wir gestern gesprochen?", _YESTERDAY),
    ("昨天我们聊了什么?", _YESTERDAY),
)


class _Turn(NamedTuple):
    at: datetime
    topic: str
    entry: MemoryEntry


class _FixedClock(Clock):
    def wall(self) -> float:
        return _NOW.timestamp()


def _turns() -> list[_Turn]:
    """Return the turns: sessions of two to six, one a day in the last two weeks."""
    chance = random.Random(7)
    older = chance.sample(range(14, _DAYS), 90)
    starts = []
    for back in [*range(14), *older]:
        hours = (8, 13, 19) if back < 14 and back else (8,)
        starts += [_days(back)[0] + timedelta(hours=hour) for hour in hours]
    turns: list[_Turn] = []
    session = 0
    while len(turns) < _TURNS:
        start = starts[session] if session < len(starts) else chance.choice(starts[40:])
        session += 1
        for place in range(chance.randint(1, 3)):
            topic = chance.choice(_TOPICS)
            for author, texts in (("user", _SAID), ("assistant", _REPLIES)):
                at = start + timedelta(minutes=3 * place, seconds=len(author))
                entry = MemoryEntry(
                    chance.choice(texts).format(topic),
                    id=f"t{len(turns)}",
                    author=author,
                    timestamp=at.timestamp(),
                    session_id=f"s{session}",
                )
                turns.append(_Turn(at, topic, entry))
    return turns[:_TURNS]


def _questions(turns: list[_Turn]) -> list[tuple[str, set[str | None]]]:
    """Return each question with the ids that answer it, with a topic of its period."""
    chance = random.Random(11)
    found = []
    for text, (begin, end) in _ASKED:
        inside = [turn for turn in turns if begin <= turn.at < end]
        for topic in chance.sample(sorted({turn.topic for turn in inside}), 1):
            ids = {turn.entry.id for turn in inside if turn.topic == topic}
            found.append((text.format(topic), ids))
    for text, (begin, end) in _BARE:
        ids = {turn.entry.id for turn in turns if begin <= turn.at < end}
        found.append((text, ids))
    return found


def _row(mode: Mode, turns: list[_Turn], *, misses: bool) -> str:
    storage = StorageOptions(clock=_FixedClock())
    with MemoryService(embedder=mode.embedder, storage=storage).sync as service:
        user = service.user("app", "alice")
        user.add([turn.entry for turn in turns])
        first = among = 0
        questions = _questions(turns)
        for text, ids in questions:
            hits = [
                each.id in ids
                for each in user.search(text, top_k=5, ranking=mode.ranking)
            ]
            first += any(hits[:1])
            among += any(hits)
            if misses and not any(hits):
                print("  not found:", text)
    return f"| {mode.name} | {len(questions)} | {among} | {first} |"


def main() -> None:
    """Print a row for each mode."""
    parser = arguments.parser(__doc__)
    parser.add_argument("--modes", default="lexical,local")
    parser.add_argument("--misses", action="store_true")
    given = parser.parse_args()
    turns = _turns()
    print("| mode | questions | in the first five | first |")
    print("|---|---|---|---|")
    for mode in choose_eval_modes(given.modes):
        print(_row(mode, turns, misses=given.misses))


if __name__ == "__main__":
    main()

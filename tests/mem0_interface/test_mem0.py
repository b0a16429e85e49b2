"""`vecall.mem0`: mem0's methods, results and refusals, over one file."""

from __future__ import annotations

import hashlib
import inspect
import random
import re
from datetime import date, datetime, timedelta, timezone

import pytest
from helpers import processes
from helpers.clocks import SettableClock
from helpers.paths import DOCS
from vecall import MemoryEntry, MemoryService, StorageOptions
from vecall.errors import ConfigError, NotFoundError
from vecall.mem0 import AsyncMemory, Memory, MemoryIdError, MemoryNotFoundError

ALICE = {"user_id": "alice"}
CHAT = [
    {"role": "system", "content": "You are a concierge."},
    {"role": "user", "content": "I keep a zebra.", "name": "Alice"},
    {"role": "assistant", "content": [{"type": "text", "text": "A zebra, noted."}]},
]


def texts(found):
    return [each["memory"] for each in found["results"]]


def test_messages_are_stored_as_they_are_without_a_model(memory):
    added = memory.add(CHAT, **ALICE)["results"]
    assert [{k: v for k, v in each.items() if k != "id"} for each in added] == [
        {"memory": "I keep a zebra.", "event": "ADD", "actor_id": "Alice",
         "role": "user"},
        {"memory": "A zebra, noted.", "event": "ADD", "actor_id": None,
         "role": "assistant"},
    ]  # fmt: skip
    assert texts(memory.get_all(filters=ALICE)) == [each["memory"] for each in added]


def test_a_memory_has_the_form_of_mem0(memory):
    began = datetime.now(timezone.utc)
    (added,) = memory.add(
        "I keep a zebra.",
        user_id="alice",
        agent_id="bot",
        run_id="r1",
        metadata={"topic": "animals", "ttl": 5, "metadata": {"deep": [1]}},
    )["results"]
    found = memory.get(added["id"])
    made = datetime.fromisoformat(found.pop("created_at"))
    assert began - timedelta(seconds=5) < made < began + timedelta(seconds=60)
    assert datetime.fromisoformat(found.pop("updated_at")) == made
    assert found == {
        "id": added["id"],
        "memory": "I keep a zebra.",
        "hash": hashlib.md5(b"I keep a zebra.").hexdigest(),
        "metadata": {"topic": "animals", "ttl": 5, "metadata": {"deep": [1]}},
        "score": None,
        "user_id": "alice",
        "agent_id": "bot",
        "run_id": "r1",
        "role": "user",
    }


def test_two_adds_of_one_text_are_two_memories_each_with_what_was_given(memory):
    def add(**names):
        (made,) = memory.add("I keep a zebra.", **ALICE, **names)["results"]
        return memory.get(made["id"])

    first = add(agent_id="one", metadata={"n": 1}, expiration_date="2999-01-01")
    second = add(agent_id="two", metadata={"n": 2})
    third = add(agent_id="two", metadata={"n": 2})
    assert memory.get(first["id"]) == first
    assert [each["metadata"] for each in (first, second)] == [{"n": 1}, {"n": 2}]
    assert (first["agent_id"], second["agent_id"]) == ("one", "two")
    assert first["expiration_date"] == "2999-01-01"
    assert "expiration_date" not in second
    listed = memory.get_all(filters=ALICE)["results"]
    ids = [each["id"] for each in (first, second, third)]
    assert [each["id"] for each in listed] == ids
    twice = [{"role": "user", "content": "A gnu."}] * 2
    assert len({each["id"] for each in memory.add(twice, **ALICE)["results"]}) == 2


def test_a_search_finds_only_the_memories_of_its_names(memory):
    for names in (
        {"user_id": "alice"},
        {"user_id": "alice", "run_id": "r1"},
        {"user_id": "alice", "agent_id": "bot"},
        {"user_id": "bob"},
        {"agent_id": "alice"},
        {"run_id": "alice"},
    ):
        memory.add(f"zebra of {sorted(names.items())}", **names)
    for names, count in (
        ({"user_id": "alice"}, 3),
        ({"user_id": "alice", "run_id": "r1"}, 1),
        ({"user_id": "alice", "agent_id": "bot"}, 1),
        ({"user_id": "alice", "agent_id": "bot", "run_id": "r1"}, 0),
        ({"user_id": "bob"}, 1),
        ({"agent_id": "alice"}, 1),
        ({"run_id": "alice"}, 1),
        ({"user_id": "carol"}, 0),
    ):
        found = memory.search("which zebra?", filters=names)
        assert len(found["results"]) == count
        assert len(memory.get_all(filters=names)["results"]) == count
        for each in found["results"]:
            assert names.items() <= each.items()
            assert 0.1 <= each["score"] <= 1


def test_filters_on_metadata_are_those_of_mem0(memory):
    for year, kind in ((2023, "cat"), (2024, "dog"), (2025, "dog"), (2026, "cow")):
        memory.add(f"zebra {year}", **ALICE, metadata={"year": year, "kind": kind})
    memory.add([{"role": "assistant", "content": "zebra without"}], **ALICE)
    cases = [
        ({"kind": "dog"}, {"2024", "2025"}),
        ({"kind": {"eq": "dog"}}, {"2024", "2025"}),
        ({"kind": {"ne": "dog"}}, {"2023", "2026", "without"}),
        ({"year": {"gt": 2024}}, {"2025", "2026"}),
        ({"year": {"gte": 2024, "lt": 2026}}, {"2024", "2025"}),
        ({"year": {"lte": 2023}}, {"2023"}),
        ({"kind": {"in": ["cat", "cow"]}}, {"2023", "2026"}),
        ({"AND": [{"kind": "dog"}, {"year": {"gt": 2024}}]}, {"2025"}),
        ({"role": "assistant"}, {"without"}),
        ({"kind": {"nin": ["cat", "cow"]}}, {"2024", "2025", "without"}),
        ({"kind": "*"}, {"2023", "2024", "2025", "2026"}),
        ({"OR": [{"kind": "cat"}, {"year": {"gt": 2025}}]}, {"2023", "2026"}),
        ({"NOT": [{"kind": "cat"}, {"year": 2026}]}, {"2024", "2025", "without"}),
        ({"OR": [{"AND": [{"kind": "dog"}, {"year": 2024}]}]}, {"2024"}),
        ({"AND": [{"year": {"gt": 2023}}, {"year": {"gt": 2024}}]}, {"2025", "2026"}),
    ]
    for conditions, expected in cases:
        filters = {**ALICE, **conditions}
        for found in (
            memory.search("zebra", filters=filters, threshold=0),
            memory.get_all(filters=filters),
        ):
            assert {text.split()[1] for text in texts(found)} == expected, conditions
    both = {"AND": [{"user_id": "alice"}, {"kind": "cow"}]}
    assert texts(memory.get_all(filters=both)) == ["zebra 2026"]


def test_facts_are_extracted_by_your_own_function(make, tmp_path):
    seen = []

    def extract(messages):
        seen.append(messages)
        return ["Keeps a zebra.", "Lives in Rome."]

    async def extract_later(messages):
        return extract(messages)

    for number, function in enumerate((extract, extract_later)):
        made = make(tmp_path / f"{number}.db", embedder=None, extract=function)
        assert texts(made.add(CHAT, **ALICE)) == ["Keeps a zebra.", "Lives in Rome."]
        assert texts(made.add("as it is", **ALICE, infer=False)) == ["as it is"]
        made.close()
    assert seen == [
        [
            {"role": "user", "content": "I keep a zebra."},
            {"role": "assistant", "content": "A zebra, noted."},
        ]
    ] * 2  # fmt: skip


@pytest.mark.parametrize("facts", ["a text", 5, [5], [" "]])
def test_a_function_that_returns_no_facts_stores_nothing(make, tmp_path, facts):
    made = make(tmp_path / "m.db", embedder=None, extract=lambda _: facts)
    with pytest.raises(ConfigError):
        made.add(CHAT, **ALICE)
    assert made.get_all(filters=ALICE) == {"results": []}
    made.close()


def test_infer_without_a_function_is_refused(memory):
    with pytest.raises(ConfigError, match="extract"):
        memory.add(CHAT, **ALICE, infer=True)
    assert memory.get_all(filters=ALICE) == {"results": []}


def test_a_deleted_memory_is_gone_with_its_history(memory):
    (one, two) = (
        memory.add(text, **ALICE)["results"][0]["id"] for text in ("one", "two")
    )
    assert memory.delete(one) == {"message": "Memory deleted successfully!"}
    assert memory.get(one) is None
    assert memory.history(one) == []
    assert texts(memory.get_all(filters=ALICE)) == ["two"]
    for call in (memory.delete, lambda id_: memory.update(id_, "x")):
        with pytest.raises(MemoryNotFoundError) as caught:
            call(one)
        assert isinstance(caught.value, (NotFoundError, ValueError))
    assert memory.get(two)["memory"] == "two"
    assert texts(memory.add("one", **ALICE)) == ["one"]


@pytest.mark.parametrize(
    "id_", ["", "x", "u.x", "u..y", "z.YQ.y", "u.****.y", "u.YQ.", 5, None, "u._w.y"]
)
def test_an_id_of_another_form_is_no_memory(memory, id_):
    assert memory.get(id_) is None
    assert memory.history(id_) == []
    for call in (memory.delete, lambda given: memory.update(given, "x")):
        with pytest.raises(MemoryIdError):
            call(id_)


def test_an_id_holds_any_name(memory):
    for name in ("alice", "a.b/c:d", "名前", 7, "x" * 200):
        (added,) = memory.add("zebra", user_id=name)["results"]
        assert memory.get(added["id"])["user_id"] == str(name)


def test_deleting_all_is_bounded_by_its_names(memory):
    for names in (
        {"user_id": "alice", "run_id": "r1"},
        {"user_id": "alice", "agent_id": "bot"},
        {"user_id": "bob"},
        {"run_id": "r1"},
    ):
        memory.add("zebra", **names)
    told = memory.delete_all(user_id="alice", run_id="r1")
    assert told == {"message": "Memories deleted successfully!"}
    assert len(memory.get_all(filters=ALICE)["results"]) == 1
    assert len(memory.get_all(filters={"run_id": "r1"})["results"]) == 1
    memory.delete_all(user_id="alice")
    assert memory.get_all(filters=ALICE) == {"results": []}
    memory.delete_all(run_id="r1")
    assert memory.get_all(filters={"run_id": "r1"}) == {"results": []}
    assert len(memory.get_all(filters={"user_id": "bob"})["results"]) == 1
    memory.reset()
    assert memory.get_all(filters={"user_id": "bob"}) == {"results": []}


def test_a_memory_expires_after_its_day(memory):
    today = datetime.now(timezone.utc).date()
    past = memory.add("zebra past", **ALICE, expiration_date=date(2020, 1, 1))
    memory.add("zebra soon", **ALICE, expiration_date=today + timedelta(days=2))
    memory.add("okapi for ever", **ALICE, expiration_date="9999-12-31")
    assert texts(memory.search("okapi", filters=ALICE)) == ["okapi for ever"]
    memory.delete(memory.search("okapi", filters=ALICE)["results"][0]["id"])
    assert texts(memory.search("zebra", filters=ALICE)) == ["zebra soon"]
    assert texts(memory.get_all(filters=ALICE)) == ["zebra soon"]
    assert memory.get(past["results"][0]["id"]) is None
    (soon,) = memory.get_all(filters=ALICE)["results"]
    assert soon["expiration_date"] == str(today + timedelta(days=2))
    memory.update(soon["id"], expiration_date=None)
    assert "expiration_date" not in memory.get(soon["id"])
    memory.update(soon["id"], expiration_date="2020-01-01")
    assert memory.get_all(filters=ALICE) == {"results": []}


def test_a_memory_is_there_until_its_day_ends_in_utc(make, tmp_path):
    clock = SettableClock()  # it begins in the morning of 15 January 2027
    options = StorageOptions(clock=clock, maintenance_interval=None)
    with MemoryService(tmp_path / "m.db", embedder=None, storage=options) as service:
        memory = make(service)
        memory.add("zebra", **ALICE, expiration_date="2027-01-15")
        end = datetime(2027, 1, 16, tzinfo=timezone.utc).timestamp()
        clock.let_pass(end - 1.0 - clock.wall())
        assert texts(memory.search("zebra", filters=ALICE)) == ["zebra"]
        assert texts(memory.get_all(filters=ALICE)) == ["zebra"]
        clock.let_pass(2.0)
        assert texts(memory.search("zebra", filters=ALICE)) == []
        assert texts(memory.get_all(filters=ALICE)) == []


def test_a_time_and_an_explanation(memory):
    memory.add("zebra", **ALICE, timestamp=1_700_000_000, run_id="r1")
    (found,) = memory.search("zebra", filters=ALICE, explain=True)["results"]
    assert found["score_details"]
    assert memory.search("zebra", filters=ALICE, top_k=0) == {"results": []}
    assert memory.search("zebra", filters=ALICE, threshold=1) == {"results": []}


def test_memories_of_another_app_are_neither_seen_nor_reset(make, tmp_path):
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        service.sync.add_memory(app_name="hotel", user_id="u:alice", memories=["zebra"])
        one, two = make(service), make(service, app_name="two")
        one.add("cow", **ALICE)
        two.add("dog", **ALICE)
        assert texts(one.get_all(filters=ALICE)) == ["cow"]
        one.reset()
        one.close()  # not the service, which others use
        assert texts(two.get_all(filters=ALICE)) == ["dog"]
        (left,) = service.sync.list_memories(app_name="hotel", user_id="u:alice")
        assert isinstance(left, MemoryEntry)


def test_many_memories_are_listed_and_deleted(memory):
    for start in range(0, 1_500, 500):
        many = [
            {"role": "user", "content": f"zebra {n}"} for n in range(start, start + 500)
        ]
        memory.add(many, **ALICE, agent_id="bot")
    assert len(memory.get_all(filters=ALICE, top_k=1_200)["results"]) == 1_200
    memory.delete_all(**ALICE, agent_id="bot")
    assert memory.get_all(filters=ALICE) == {"results": []}


@pytest.mark.parametrize("most", [11, 100])
@pytest.mark.parametrize("doomed", ["last", "page", "shown", "any", "all"])
def test_deletions_between_two_pages_make_a_list_skip_and_repeat_nothing(
    make, tmp_path, monkeypatch, doomed, most
):
    monkeypatch.setattr(f"{AsyncMemory.__module__}._PAGE", 4)
    choose = random.Random(f"{doomed}/{most}")
    whose = {"app_name": "mem0", "user_id": "u:alice"}
    deleted: set[str] = set()
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        memory = make(service)
        chat = [{"role": "user", "content": f"zebra {n}"} for n in range(23)]
        memory.add(chat, **ALICE)
        there = service.sync.list_memories(**whose)
        order = [each.id for each in there]
        pages: list[list[str]] = []

        def delete_some() -> None:
            shown = [each for page in pages for each in page]
            gone = {
                "last": shown[-1:],
                "page": shown[-4:],
                "shown": shown,
                "any": [*choose.sample(order, 3), *shown[-1:]],
                "all": order,
            }[doomed]
            gone = [each for each in gone if each not in deleted]
            if pages and gone and len(pages) < 5:
                service.sync.delete_memories(**whose, memory_ids=gone)
                deleted.update(gone)

        kind = type(memory._twin) if make is Memory else AsyncMemory
        call = kind._call_user

        async def beside_deletions(self, *arguments, **options):
            delete_some()
            page = await call(self, *arguments, **options)
            pages.append([each.id for each in page])
            return page

        monkeypatch.setattr(kind, "_call_user", beside_deletions)
        found = texts(memory.get_all(filters=ALICE, top_k=most))
    assert deleted
    place_of = {each.text: place for place, each in enumerate(there)}
    places = [place_of[each] for each in found]
    assert places == sorted(set(places))
    end = places[-1] + 1 if len(found) == most else len(order)
    kept = [place for place in range(end) if order[place] not in deleted]
    assert set(kept) <= set(places)


def test_a_configuration_of_mem0_is_refused_with_what_is_known(tmp_path):
    with pytest.raises(ConfigError, match="memory, app_name, embedder, extract"):
        Memory.from_config({"vector_store": {"provider": "qdrant"}})
    with Memory.from_config({"memory": tmp_path / "m.db", "embedder": None}) as memory:
        memory.add("zebra", **ALICE)
    with pytest.raises(ConfigError):
        Memory(extract="not a function")
    assert not (tmp_path / "memory.db").exists()


def test_both_classes_have_the_same_methods():
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if not name.startswith("_"):
            twin = getattr(AsyncMemory, name)
            given, expected = inspect.signature(method), inspect.signature(twin)
            assert given.parameters == expected.parameters, name


KILLED = """
import sys
from vecall.mem0 import Memory
memory = Memory(sys.argv[1], embedder=None)
for n in range(10_000):
    memory.add(f"zebra {n}", user_id="alice")
    print(n, flush=True)
"""


def test_an_added_memory_survives_a_kill(tmp_path):
    path = tmp_path / "m.db"
    with processes.child(KILLED, path, imports="vecall.mem0") as child:
        for _ in range(20):
            last = int(processes.said(child))
    with Memory(path, embedder=None) as memory:
        found = texts(memory.get_all(filters=ALICE, top_k=20_000))
    assert found[: last + 1] == [f"zebra {n}" for n in range(last + 1)]
    assert len(found) >= last + 1


def test_the_program_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    page = DOCS / "guide/mem0.md"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "mem0.md", "exec"), {})
    assert "I keep a zebra." in capsys.readouterr().out

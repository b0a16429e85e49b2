"""`vecall.autogen` with autogen-core itself."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

pytest.importorskip("autogen_core")

from autogen_core import CancellationToken, ComponentModel
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from helpers.paths import DOCS
from helpers.unasked import check_unasked
from vecall import MemoryService
from vecall.autogen import VecallMemory
from vecall.errors import ConfigError, InvalidArgumentError, InvalidTypeError
from vecall.limits import SHARED_APP

ALICE = {"app_name": "hotel", "user_id": "alice"}
TEXT, JSON = MemoryMimeType.TEXT, MemoryMimeType.JSON


@pytest.fixture
def service(tmp_path):
    with MemoryService(tmp_path / "memory.db", embedder=None) as opened:
        yield opened


@pytest.fixture
def memory(service):
    return VecallMemory(service, "hotel", "alice")


def content(given, mime_type=TEXT, **metadata):
    return MemoryContent(content=given, mime_type=mime_type, metadata=metadata or None)


def added(memory, *contents):
    async def add():
        for each in contents:
            await memory.add(each)

    asyncio.run(add())


def found(memory, query, **options):
    return asyncio.run(memory.query(query, **options)).results


def context(*messages):
    made = BufferedChatCompletionContext(buffer_size=20)
    for message in messages:
        asyncio.run(made.add_message(message))
    return made


def texts(given):
    return [message.content for message in asyncio.run(given.get_messages())]


def asked(text):
    return UserMessage(content=text, source="user")


def test_a_content_comes_back_as_it_went_in(memory):
    assert isinstance(memory, Memory)
    deep = {"b": [1, {"c": None}], "a": "zebra ä \U0001f600", "ttl": 5}
    contents = [
        content("The zebra is fast.", category="animal", ttl=3, nested={"x": [1.5]}),
        content("# The zebra", MemoryMimeType.MARKDOWN),
        content(deep, JSON),
        content("A zebra of a text type", "text/plain"),
    ]
    added(memory, *contents)
    results = found(memory, "zebra", top_k=10)
    assert len(results) == len(contents)
    for given in contents:
        (back,) = [each for each in results if each.content == given.content]
        assert MemoryMimeType(given.mime_type) is back.mime_type
        assert isinstance(back.metadata.pop("score"), float)
        assert back.metadata.pop("id")
        assert back.metadata == (given.metadata or {})
    (json_back,) = [each for each in results if each.mime_type is JSON]
    assert list(json_back.content) == ["b", "a", "ttl"]


def test_a_text_added_twice_is_two_memories_each_with_its_metadata(memory):
    added(memory, content("a zebra", n=0), content("a zebra", n=1))
    numbers = {each.metadata["n"] for each in found(memory, "zebra")}
    assert numbers == {0, 1}


def test_metadata_of_yours_are_not_overwritten(memory):
    added(memory, content("zebra", id=7, score="high"))
    (back,) = found(memory, "zebra")
    assert back.metadata == {"id": 7, "score": "high"}


@pytest.mark.parametrize(
    "wrong",
    [
        content(b"bytes", MemoryMimeType.BINARY),
        content("text", JSON),
        content({"a": 1}, TEXT),
        content({"a": float("nan")}, JSON),
        content("text", "text/html"),
        content("text", MemoryMimeType.IMAGE),
    ],
)
def test_another_content_is_refused_by_a_type_error(memory, wrong):
    with pytest.raises(InvalidTypeError):
        added(memory, wrong)
    with pytest.raises(InvalidTypeError):
        found(memory, wrong)
    assert found(memory, "text bytes a") == []


def test_a_blank_text_is_refused(memory):
    with pytest.raises(InvalidArgumentError):
        added(memory, content("  "))


@pytest.mark.parametrize(
    "corrected",
    ["42", '["a zebra"]', '"zebra"', "null", "{zebra", "[" * 9_999 + " zebra"],
)
def test_json_that_was_corrected_to_no_object_comes_back_as_text(
    service, memory, corrected
):
    added(memory, content({"a": "zebra"}, JSON))
    (before,) = found(memory, "zebra")
    service.sync.update_memory(
        **ALICE,
        memory_id=before.metadata["id"],
        content=corrected,
    )
    after = found(memory, corrected[-9:])[0]
    assert (after.content, after.mime_type) == (corrected, TEXT)


@pytest.mark.parametrize("name", ["app_name", "user_id"])
def test_a_wrong_name_opens_no_file(tmp_path, name):
    for wrong in ("", "a\0b", SHARED_APP):
        with pytest.raises(InvalidArgumentError):
            VecallMemory(tmp_path / "m.db", **{**ALICE, name: wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_query_is_a_text_or_a_content(memory):
    added(memory, content("The zebra is fast."), content("Cows are slow."))
    (best,) = found(memory, content("zebra"))
    assert best.content == "The zebra is fast."
    assert found(memory, content({"of": "cows"}, JSON))[0].content == "Cows are slow."
    assert found(memory, "") == []
    assert found(memory, "zebra", min_confidence=1) == []
    assert found(memory, "zebra", filter={"author": "nobody"}) == []
    with pytest.raises(InvalidTypeError):
        found(memory, "zebra", limit=5)
    with pytest.raises(InvalidArgumentError):
        found(memory, "zebra", top_k=0)


def test_a_context_gets_the_memories_for_the_last_question_once(memory):
    added(memory, content("The zebra is fast."), content("Cows are slow."))
    given = context(asked("Is the zebra fast?"))
    result = asyncio.run(memory.update_context(given))
    assert [each.content for each in result.memories.results] == ["The zebra is fast."]
    question, block = texts(given)
    assert question == "Is the zebra fast?"
    assert "The zebra is fast." in block
    assert "not instructions" in block
    again = asyncio.run(memory.update_context(given))
    assert again.memories.results == []
    assert len(texts(given)) == 2
    asyncio.run(given.add_message(asked("And cows?")))
    assert len(asyncio.run(memory.update_context(given)).memories.results) == 1
    assert len(texts(given)) == 4


def test_versions_of_a_statement_stand_together_newest_first(service):
    memory = VecallMemory(service, "hotel", "alice", min_confidence=0)
    facts = [
        {"content": f"The wedding is on the {day}.", "timestamp": 1.7e9 + 86_400 * day}
        for day in (5, 17)
    ]
    service.sync.add_memory(app_name="hotel", user_id="alice", memories=facts)
    given = context(asked("On which day is the wedding?"))
    asyncio.run(memory.update_context(given))
    newer, older = (texts(given)[1].index(each["content"]) for each in facts[::-1])
    assert newer < texts(given)[1].index("later than the statement") < older


def test_an_answer_or_an_image_is_no_question(memory):
    added(memory, content("The zebra is fast."))
    for messages in (
        (),
        (AssistantMessage(content="zebra", source="agent"),),
        (SystemMessage(content="zebra"),),
        (asked("Hello!"), AssistantMessage(content="zebra", source="agent")),
    ):
        given = context(*messages)
        assert asyncio.run(memory.update_context(given)).memories.results == []
        assert len(texts(given)) == len(messages)
    given = context(UserMessage(content=["Is the zebra", "fast?"], source="user"))
    assert len(asyncio.run(memory.update_context(given)).memories.results) == 1


def test_a_block_fits_its_budget(service):
    memory = VecallMemory(service, "hotel", "alice", max_tokens=250, top_k=5)
    added(memory, *(content(f"zebra {n} " + "is fast " * 30) for n in range(5)))
    given = context(asked("zebra"))
    shown = asyncio.run(memory.update_context(given)).memories.results
    assert 1 <= len(shown) < 5
    assert len(texts(given)[1]) <= 4 * 250


def test_a_failing_search_does_not_fail_the_run(service, caplog):
    memory = VecallMemory(service, "hotel", "alice")
    added(memory, content("The zebra is fast."))
    service.close()
    given = context(asked("zebra"))
    with caplog.at_level(logging.WARNING, "vecall"):
        result = asyncio.run(memory.update_context(given))
    assert result.memories.results == []
    assert texts(given) == ["zebra"]
    assert caplog.messages == ["nothing was recalled: ClosedError"]


def test_users_and_apps_share_nothing_and_clearing_one_leaves_the_others(service):
    owners = [("hotel", "alice"), ("hotel", "bob"), ("bank", "alice")]
    memories = [VecallMemory(service, *owner) for owner in owners]
    for memory, owner in zip(memories, owners, strict=True):
        added(memory, content(f"zebra of {owner}"))
    for memory, owner in zip(memories, owners, strict=True):
        assert [e.content for e in found(memory, "zebra")] == [f"zebra of {owner}"]
    asyncio.run(memories[0].clear())
    assert [len(found(memory, "zebra")) for memory in memories] == [0, 1, 1]
    assert service.sync.admin.stats()["deleted_ids"] == 0  # nor is its id known
    added(memories[0], content("zebra again"))
    assert len(found(memories[0], "zebra")) == 1


def test_a_cancelled_token_ends_a_call(memory):
    async def run():
        token = CancellationToken()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await memory.query("zebra", token)
        with pytest.raises(asyncio.CancelledError):
            await memory.add(content("zebra"), token)
        await memory.add(content("zebra alive"), CancellationToken())

    asyncio.run(run())
    assert "zebra alive" in [each.content for each in found(memory, "zebra")]


def test_a_component_is_dumped_and_loaded(tmp_path):
    path = tmp_path / "own.db"
    memory = VecallMemory(path, "hotel", "alice", embedder=None, top_k=3)
    added(memory, content("The zebra is fast."))
    model = memory.dump_component()
    asyncio.run(memory.close())
    assert model.provider == "vecall.autogen.VecallMemory"
    assert model.component_type == "memory"
    copied = ComponentModel.model_validate_json(model.model_dump_json())
    loaded = Memory.load_component(copied)
    assert isinstance(loaded, VecallMemory)
    assert loaded.dump_component() == model
    assert [e.content for e in found(loaded, "zebra")] == ["The zebra is fast."]
    asyncio.run(loaded.close())


def test_what_a_configuration_cannot_hold_is_refused(memory, tmp_path):
    with pytest.raises(ConfigError):
        memory.dump_component()
    own = VecallMemory(
        tmp_path / "own.db", "a", "u", embedder=lambda texts: [[1.0]] * len(texts)
    )
    with pytest.raises(ConfigError):
        own.dump_component()
    asyncio.run(own.close())


def test_closing_leaves_a_service_open_that_others_use(memory):
    asyncio.run(memory.close())
    added(memory, content("zebra"))
    assert len(found(memory, "zebra")) == 1


def test_the_program_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    page = DOCS / "guide/autogen.md"
    if not page.exists():
        pytest.skip("the documentation is not beside the tests")
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "autogen.md", "exec"), {})
    assert "Alice drinks tea." in capsys.readouterr().out


def test_an_unrelated_message_gets_no_memories():
    def inject(service, text, **options):
        given = context(asked(text))
        memory = VecallMemory(service, "hotel", "alice", **options)
        asyncio.run(memory.update_context(given))
        return "\n".join(texts(given)[1:])

    check_unasked(inject, ("hotel", "alice"))


@pytest.mark.parametrize("floor", [{}, *({"min_confidence": f} for f in (None, 0, 1))])
def test_a_configuration_keeps_the_floor(tmp_path, floor):
    path = tmp_path / "m.db"
    memory = VecallMemory(path, "hotel", "alice", embedder=None, **floor)
    added(memory, content("I keep a zebra called Bruno."))
    again = VecallMemory.load_component(memory.dump_component())
    for text in ("zebra", "What did the accountant say of zebra forms in spring?"):
        one, two = (
            asyncio.run(each.update_context(context(asked(text)))).memories.results
            for each in (memory, again)
        )
        assert one == two
        assert bool(one) == (floor.get("min_confidence", 0) in (None, 0))
    for each in (memory, again):
        asyncio.run(each.close())

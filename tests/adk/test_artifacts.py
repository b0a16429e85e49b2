"""Saved artifacts can be recalled, and the model finds its way from there to them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import vecall

pytest.importorskip("google.adk")

from google.adk.artifacts import (
    BaseArtifactService,
    FileArtifactService,
    InMemoryArtifactService,
)
from google.adk.runners import Runner
from google.genai import types
from helpers.adk import (
    ALICE,
    ScriptedLlm,
    adk_service,
    answers_in,
    entries,
    say,
    shown_in,
    stored,
    the_session,
)
from helpers.artifacts import (
    NUTS,
    SEEDS,
    a_desk,
    documents,
    report,
    run,
    saved,
    texts,
)
from vecall.adk import VecallMemoryPlugin, VecallMemoryService

service = pytest.fixture(adk_service)


@pytest.fixture(params=["in memory", "in files"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> BaseArtifactService:
    """S1.35, S1.36: google-adk's own two services."""
    if request.param == "in memory":
        return InMemoryArtifactService()
    return FileArtifactService(tmp_path / "artifacts")


@pytest.mark.parametrize("name", ["diet.md", "user:diet.md"])
def test_a_model_follows_the_pointer_to_the_artifact(
    service: VecallMemoryService, artifacts: BaseArtifactService, name: str
) -> None:
    """S1.43: it asks its memory, is told a name, and loads what is there under it."""
    session = "trip-1" if name == "diet.md" else "trip-2"
    steps = [
        *saved(report(name, SEEDS), report(name, NUTS)),
        ("load_memory", {"query": "What does a parrot eat?"}),
        ("load_artifacts", {"artifact_names": [name]}),
        "Nuts.",
    ]

    async def scenario() -> ScriptedLlm:
        runner, llm = a_desk(service, artifacts, *steps)
        await say(runner, "Save this.", "Save that.")
        await runner.close()
        await say(runner, "Please look it up.", session=session)
        await runner.close()
        return llm

    llm = asyncio.run(scenario())
    recalled = [
        each
        for answer in answers_in(llm.requests[-2])
        for each in answer.get("memories", [])
        if each.get("kind") == "document"
    ]
    assert len(recalled) == 1
    assert f'artifact "{name}", version 1' in recalled[0]["text"]
    assert NUTS in recalled[0]["text"]
    assert recalled[0].get("session_id") == ("trip-1" if name == "diet.md" else None)
    inserted = [
        shown
        for each in llm.requests[-1].contents
        if "Artifact" in (shown := shown_in(each))
    ]
    assert inserted == [f"Artifact {name} is: {NUTS}"]


def test_what_is_preloaded_names_the_artifact(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.44: and where it can be loaded, as the tool `load_memory` does."""

    async def scenario() -> ScriptedLlm:
        steps = saved(report("diet.md", SEEDS))
        runner, llm = a_desk(service, artifacts, *steps)
        await say(runner, "Save this.")
        await runner.close()
        await say(runner, "What does a parrot eat?", session="trip-2")
        return llm

    block = shown_in(asyncio.run(scenario()).requests[-1].contents[-1])
    assert 'artifact "diet.md", version 0, in session "trip-1" only]' in block
    assert SEEDS in block


def test_google_adk_shows_an_artifact_in_its_own_session_only(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.32, S1.33: which is why the pointer names the session."""
    names = ["diet.md", "user:food.md"]

    async def scenario() -> ScriptedLlm:
        calls = saved(*(report(name, NUTS) for name in names))
        steps = [*calls, ("load_artifacts", {"artifact_names": names}), "Done."]
        runner, llm = a_desk(service, artifacts, *steps)
        await say(runner, "Save this.", "And that.")
        await say(runner, "Please load both.", session="trip-2")
        await runner.close()
        return llm

    shown = map(shown_in, asyncio.run(scenario()).requests[-1].contents)
    found = [each for each in shown if "Artifact" in each]
    assert found == [f"Artifact user:food.md is: {NUTS}"]


def test_what_an_entry_says_of_its_artifact(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.44, S1.45: versions start at 0, and google-adk's own tools show them."""
    run(service, artifacts, report("diet.md", SEEDS), report("user:diet.md", NUTS))
    of_session, of_user = sorted(documents(service), key=lambda each: each.author)
    expected = {"filename": "diet.md", "version": 0, "part": 1, "parts": 1}
    assert of_session.custom_metadata == {"artifact": expected}
    assert of_session.author == "artifact diet.md"
    assert (of_session.kind, of_session.source) == ("document", "artifact")
    assert (of_session.session_id, of_user.session_id) == ("trip-1", None)
    assert of_session.timestamp is not None
    assert of_user.custom_metadata["artifact"]["filename"] == "user:diet.md"
    shown = entries(service, "parrot eats").values()
    assert expected in [each.custom_metadata.get("artifact") for each in shown]


def test_only_the_newest_version_is_recalled(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.45: a shorter one leaves nothing of a longer one behind."""
    long = "\n\n".join(f"Parrot {n} eats {n} seeds. " * 10 for n in range(10))
    run(service, artifacts, report("diet.md", long), report("other.md", SEEDS))
    assert len(documents(service)) == 5 + 1
    run(service, artifacts, report("diet.md", NUTS))
    said = sorted(texts(service))
    assert len(said) == 2
    assert NUTS in said[0]
    assert "version 1" in said[0]
    assert SEEDS in said[1]
    run(service, artifacts, report("diet.md", long))
    said = texts(service)
    assert len([each for each in said if "version 2" in each]) == 5
    assert len(said) == 6


def test_the_same_name_in_two_sessions_is_two_artifacts(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.32, S1.33: one of the user is one in all sessions."""
    for session, text in (("trip-1", SEEDS), ("trip-2", NUTS)):
        calls = report("diet.md", text), report("user:diet.md", text)
        run(service, artifacts, *calls, session=session)
    found = {
        (each.session_id, each.text.partition("\n")[2]) for each in documents(service)
    }
    assert found == {("trip-1", SEEDS), ("trip-2", NUTS), (None, NUTS)}


def test_a_new_version_replaces_only_the_artifact_of_exactly_its_name(
    service: VecallMemoryService,
) -> None:
    """S1.32: whether it belongs to a session or to the user."""
    names = ["diet.md", "user:diet.md", "Diet.md", " diet.md", "diet.md ", "diet.m"]
    names += [" user:diet.md", "User:diet.md", "user:user:diet.md", "user:trip-1"]
    artifacts = InMemoryArtifactService()
    run(service, artifacts, *(report(name, SEEDS) for name in names))

    def versions() -> dict[str, int]:
        found = [each.custom_metadata["artifact"] for each in documents(service)]
        assert len(found) == len(names)
        return {each["filename"]: each["version"] for each in found}

    expected = dict.fromkeys(names, 0)
    assert versions() == expected
    for name in names:
        run(service, artifacts, report(name, NUTS))
        expected[name] = 1
        assert versions() == expected


def test_a_new_version_leaves_memories_that_are_no_artifacts(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.46: an artifact of the user is one in all sessions, other documents stay."""
    other = {
        "content": f"About artifacts: {SEEDS}",
        "author": "artifact user:diet.md",
        "kind": "document",
    }
    others = [{**other, "id": "1"}, {**other, "id": "2", "session_id": "trip-2"}]
    service.memory.sync.add_memory(**ALICE, memories=others)
    for text in (SEEDS, NUTS):
        run(service, artifacts, report("user:diet.md", text))
    found = {each.id: each.text.partition("\n")[2] for each in documents(service)}
    assert {"1", "2"} < set(found)
    assert list(found.values()).count(NUTS) == 1
    assert len(found) == 3


def test_an_artifact_gets_no_share_of_its_session(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """Each piece ranks by what it says; a filter by session sees it."""
    run(service, artifacts, report("diet.md", SEEDS), report("user:diet.md", SEEDS))
    content = {"parts": [{"text": SEEDS}]}
    told = [{"id": f"e{n}", "author": "user", "content": content} for n in range(3)]
    service.memory.sync.add_session_to_memory({**ALICE, "id": "trip-1", "events": told})

    def explained(**options: Any) -> dict[str, list[Any]]:
        found = service.memory.sync.search_memory(
            **ALICE, query="parrot eats seeds", top_k=100, explain=True, **options
        )
        parts: dict[str, list[Any]] = {}
        for each in found.memories:
            assert each.explanation is not None
            kind = "document" if each.kind == "document" else "turn"
            parts.setdefault(kind, []).append((each.session_id, each.explanation))
        return parts

    parts = explained()
    assert len(parts["turn"]) >= 3
    assert {session for session, _ in parts["document"]} == {"trip-1", None}
    turns = min(each["session"] for _, each in parts["turn"])
    for _, each in parts["document"]:
        assert each["session"] < turns / 2, "that of a usual session"
        assert each["neighbours"] == pytest.approx(0.5 * each["words"])
    of_this = explained(filter=vecall.Filter(session_id="trip-1"))
    assert [session for session, _ in of_this["document"]] == ["trip-1"]


def test_a_session_that_is_told_again_writes_nothing(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.46: after a restart all of a session is handed over once more."""

    async def again(runner: Runner) -> VecallMemoryPlugin:
        fresh = VecallMemoryPlugin(index_artifacts=True)
        runner.plugin_manager.plugins[:] = [fresh]
        await say(runner, "And?")
        await runner.close()
        return fresh

    async def scenario() -> None:
        calls = saved(report("user:diet.md", SEEDS), report("diet.md", SEEDS))
        runner, _ = a_desk(service, artifacts, *calls)
        await say(runner, "Save this.", "And that.")
        await runner.close()
        before = {each.id: each.updated_at for each in documents(service)}
        assert len(before) == 2
        await again(runner)
        assert {each.id: each.updated_at for each in documents(service)} == before
        # What was deleted stays so, but for a new version.
        await service.memory.delete_session(**ALICE, session_id="trip-1")
        assert {each.session_id for each in documents(service)} == {None}
        await again(runner)
        assert {each.session_id for each in documents(service)} == {None}
        # Another session has saved a newer one than this session knows of.
        part = types.Part(text=NUTS)
        where = {**ALICE, "session_id": "trip-9"}
        await artifacts.save_artifact(**where, filename="user:diet.md", artifact=part)
        await again(runner)
        assert [NUTS in each for each in texts(service)] == [True]

    asyncio.run(scenario())


def test_what_is_archived_stays_archived(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.46: and is not deleted either, when the session is told again."""

    async def scenario() -> None:
        runner, _ = a_desk(service, artifacts, *saved(report("diet.md", SEEDS)))
        await say(runner, "Save this.")
        await runner.close()
        (piece,) = documents(service)
        await service.memory.archive_memory(**ALICE, memory_id=piece.id)
        runner.plugin_manager.plugins[:] = [VecallMemoryPlugin(index_artifacts=True)]
        await say(runner, "And?")
        await runner.close()
        assert documents(service) == []
        await service.memory.restore_memory(**ALICE, memory_id=piece.id)
        assert texts(service) == [piece.text]

    asyncio.run(scenario())


def test_an_artifact_that_is_gone_is_forgotten(service: VecallMemoryService) -> None:
    """S1.28, S3.22: by a rewind, or deleted before it is told of again."""
    artifacts = InMemoryArtifactService()

    async def scenario() -> None:
        calls = saved(report("diet.md", SEEDS), report("user:diet.md", SEEDS))
        runner, _ = a_desk(service, artifacts, *calls)
        await say(runner, "Save this.", "And that.")
        await runner.close()
        assert len(documents(service)) == 2
        first = (await the_session(runner)).events[0].invocation_id
        where = {"user_id": "alice", "session_id": "trip-1"}
        await runner.rewind_async(**where, rewind_before_invocation_id=first)
        await say(runner, "And?")
        await runner.close()
        assert [each.session_id for each in documents(service)] == [None]
        scope = {**ALICE, "session_id": "trip-1"}
        await artifacts.delete_artifact(**scope, filename="user:diet.md")
        runner.plugin_manager.plugins[:] = [VecallMemoryPlugin(index_artifacts=True)]
        await say(runner, "And?")
        await runner.close()
        assert documents(service) == []

    asyncio.run(scenario())


def test_a_loaded_artifact_is_no_turn(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.43: what load_artifacts and load_memory put into a request is not said."""
    run(
        service,
        artifacts,
        report("diet.md", SEEDS),
        ("load_artifacts", {"artifact_names": ["diet.md"]}),
        ("load_memory", {"query": "What does a parrot eat?"}),
    )
    assert stored(service) == 6 + 1
    found = entries(service, "parrot eats seeds")
    assert [each for each in found if SEEDS in each] == texts(service)


def test_what_is_no_text_is_known_by_its_name(
    service: VecallMemoryService, artifacts: BaseArtifactService
) -> None:
    """S1.43: load_artifacts can show a model a PDF, so it has to be found."""
    data = {
        "filename": "user:invoice_2024.pdf",
        "data": "2550",
        "mime_type": "application/pdf",
    }
    run(service, artifacts, ("save_bytes", data))
    said = '[artifact "user:invoice_2024.pdf", version 0, application/pdf]'
    assert texts(service, "the invoice pdf of 2024") == [said]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_reads_more(service: VecallMemoryService, kind: str) -> None:
    """S1.43: such as the one that LoadArtifactsTool is given."""

    def to_text(artifact: types.Part, name: str) -> str | None:
        assert artifact.inline_data is not None
        return SEEDS if name == "diet.pdf" else None

    async def later(artifact: types.Part, name: str) -> str | None:
        return to_text(artifact, name)

    chosen = to_text if kind == "sync" else later
    data = {"data": "2550", "mime_type": "application/pdf"}
    run(
        service,
        InMemoryArtifactService(),
        ("save_bytes", {"filename": "diet.pdf", **data}),
        ("save_bytes", {"filename": "map.pdf", **data}),
        plugin=VecallMemoryPlugin(index_artifacts=chosen),
    )
    assert texts(service, "parrot")[0].endswith(f"only]\n{SEEDS}")
    assert len(documents(service, "diet map pdf")) == 2

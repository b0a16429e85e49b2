"""Events and sessions of google-adk, and a service behind its contract."""

from __future__ import annotations

import asyncio
import copy
import functools
import warnings
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.memory.base_memory_service import SearchMemoryResponse
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.genai import types
from vecall.adk import VecallMemoryService

ALICE = {"app_name": "hotel", "user_id": "alice"}
ROOM = "I would like a quiet room on a high floor."
PARROT = "Parrots are my favourite animals."


def adk_service() -> Iterator[VecallMemoryService]:
    """For pytest.fixture: a service without a file, closed at the end."""
    service = VecallMemoryService(embedder=None)
    yield service
    service.close()


def an_event(
    *parts: str | types.Part, id: str = "", author: str = "user", **fields: Any
) -> Event:
    made = [types.Part(text=p) if isinstance(p, str) else p for p in parts]
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=made)
    return Event(id=id, author=author, content=content, **fields)


def a_session(*events: Event, id: str = "trip-1", **scope: str) -> Session:
    return Session(id=id, events=list(events), **{**ALICE, **scope})


def a_trip() -> Session:
    return a_session(
        an_event(ROOM, id="e1", timestamp=0.0),
        an_event("Noted.", id="e2", author="concierge", timestamp=60.5),
        an_event(PARROT, id="e3", timestamp=3600.0),
    )


def ingest(service: VecallMemoryService, session: Any) -> None:
    asyncio.run(service.add_session_to_memory(session))


def search(
    service: VecallMemoryService, query: str, **scope: str
) -> SearchMemoryResponse:
    return asyncio.run(service.search_memory(query=query, **{**ALICE, **scope}))


def entries(service: VecallMemoryService, query: str, **scope: str) -> dict[str, Any]:
    """What a search finds, by text."""
    found = search(service, query, **scope).memories
    return {entry.content.parts[0].text: entry for entry in found}


def stored(service: VecallMemoryService) -> int:
    return service.memory.sync.admin.stats()["memories"]


def add(service: VecallMemoryService, *memories: Any, **metadata: Any) -> None:
    asyncio.run(
        service.add_memory(**ALICE, memories=memories, custom_metadata=metadata or None)
    )


Step = str | tuple[str, dict[str, Any]]
"""What a scripted model does: say a text, or call a tool with arguments."""


class ScriptedLlm(BaseLlm):
    """Does one step after the other; at the end of the script it says "Certainly."."""

    model: str = "scripted"
    script: list[Any]
    requests: list[LlmRequest]

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        seen = {
            "contents": copy.deepcopy(llm_request.contents),
            "config": copy.deepcopy(llm_request.config),
        }
        self.requests.append(llm_request.model_copy(update=seen))
        step: Step = self.script.pop(0) if self.script else "Certainly."
        if isinstance(step, str):
            part = types.Part(text=step)
        else:
            name, arguments = step
            part = types.Part(
                function_call=types.FunctionCall(name=name, args=arguments)
            )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def a_runner(
    memory: Any,
    *steps: Step,
    tools: tuple[Any, ...] = (),
    plugins: tuple[Any, ...] = (),
    sessions: BaseSessionService | None = None,
    **app: Any,
) -> tuple[Runner, ScriptedLlm]:
    """A Runner of the app "hotel", and the model that it asks."""
    llm = ScriptedLlm(script=list(steps), requests=[])
    agent = LlmAgent(name="concierge", model=llm, tools=list(tools))
    runner = Runner(
        app=App(name="hotel", root_agent=agent, plugins=list(plugins), **app),
        session_service=sessions or InMemorySessionService(),
        memory_service=memory,
        artifact_service=InMemoryArtifactService(),
    )
    return runner, llm


async def say(
    runner: Runner, *texts: str, user: str = "alice", session: str = "trip-1"
) -> list[Event]:
    """Say texts one after the other in one session; return what the runs yielded."""
    scope = {"app_name": "hotel", "user_id": user, "session_id": session}
    if await runner.session_service.get_session(**scope) is None:
        await runner.session_service.create_session(**scope)
    events = []
    for text in texts:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(
            user_id=user, session_id=session, new_message=message
        ):
            events.append(event)
    return events


async def the_session(
    runner: Runner, user: str = "alice", session: str = "trip-1"
) -> Session:
    found = await runner.session_service.get_session(
        app_name="hotel", user_id=user, session_id=session
    )
    assert found is not None
    return found


def answers_in(request: LlmRequest) -> list[dict[str, Any]]:
    """What tools answered, as JSON carries it to a model."""
    return [
        part.function_response.model_dump(mode="json")["response"]
        for content in request.contents
        for part in content.parts or []
        if part.function_response
    ]


def shown_in(content: types.Content) -> str:
    """The texts of a content."""
    return " ".join(part.text for part in content.parts or [] if part.text)


class _Told(BasePlugin):
    """Notes whether google-adk told it of the end of a run."""

    ends = False

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        self.ends = True


@functools.cache
def _after_a_run() -> tuple[bool, bool]:
    """See, without vecall, whether google-adk tells plugins and sums the events up."""
    plugin = _Told(name="told")
    llm = ScriptedLlm(script=["A quiet room."], requests=[])

    async def scenario() -> list[Event]:
        config = EventsCompactionConfig(
            compaction_interval=1,
            overlap_size=0,
            summarizer=LlmEventSummarizer(llm=llm),
        )
        runner, _ = a_runner(None, plugins=(plugin,), events_compaction_config=config)
        await say(runner, ROOM)
        return (await the_session(runner)).events

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compaction is experimental
        events = asyncio.run(scenario())
    return plugin.ends, any(event.actions.compaction for event in events)


def needs_after_run_callbacks() -> None:
    """Skip where google-adk forgets it: 2.0.0b1 to 2.1.0, with an LlmAgent as root."""
    if not _after_a_run()[0]:
        pytest.skip("google-adk does not call a plugin's after_run_callback")


def needs_compaction() -> None:
    """Skip where google-adk forgets it: 2.0.0b1 to 2.1.0, with an LlmAgent as root."""
    if not _after_a_run()[1]:
        pytest.skip("google-adk does not compact events after a run")


class CountingMemoryService(VecallMemoryService):
    """Notes every search that reaches the memory below, whichever way it came."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.searches: list[dict[str, Any]] = []
        search = self.memory.search_memory

        async def noted(**arguments: Any) -> Any:
            self.searches.append(arguments)
            return await search(**arguments)

        self.memory.search_memory = noted

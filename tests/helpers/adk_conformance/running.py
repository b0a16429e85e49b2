"""google-adk's own Runner, tools and callbacks around the service."""

from __future__ import annotations

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.cli.service_registry import get_service_registry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import preload_memory_tool

from helpers.adk import (
    ALICE,
    PARROT,
    ScriptedLlm,
    a_runner,
    a_trip,
    answers_in,
    say,
    shown_in,
    the_session,
)
from helpers.adk_conformance.checks import Place, Section

SECTION = Section("With google-adk's Runner, tools and server")


@SECTION.check(
    "load_memory tells the model what another session said",
    'adk-docs, memory: load_memory; #244, #2501 "memory doesn\'t work"',
)
async def load(place: Place) -> None:
    memory = place.open()
    call = ("load_memory", {"query": "favourite animals"})
    runner, llm = a_runner(memory.service, "Nice.", call, tools=(load_memory_tool,))
    await say(runner, PARROT, session="first")
    session = await the_session(runner, session="first")
    await memory.service.add_session_to_memory(session)
    await say(runner, "What do I like?", session="second")
    assert PARROT in str(answers_in(llm.requests[-1]))


@SECTION.check(
    "preload_memory shows the model what another session said",
    "adk-docs, memory: preload_memory; #2417",
)
async def preload(place: Place) -> None:
    memory = place.open()
    runner, llm = a_runner(memory.service, "Nice.", tools=(preload_memory_tool,))
    await say(runner, PARROT, session="first")
    session = await the_session(runner, session="first")
    await memory.service.add_session_to_memory(session)
    await say(runner, "Which animals are my favourite?", session="second")
    shown = [shown_in(content) for content in llm.requests[-1].contents]
    config = str(llm.requests[-1].config.system_instruction)  # until google-adk 2.5
    assert any(PARROT in text for text in [*shown, config])


@SECTION.check(
    "A callback that adds the session after each turn remembers each turn once",
    "adk-docs, memory: add_session_to_memory in after_agent_callback; #2416",
)
async def callback(place: Place) -> None:
    memory = place.open()

    async def remember(callback_context: CallbackContext) -> None:
        await callback_context.add_session_to_memory()

    agent = LlmAgent(
        name="concierge",
        model=ScriptedLlm(script=["One.", "Two.", "Three."], requests=[]),
        after_agent_callback=remember,
    )
    runner = Runner(
        app=App(name="hotel", root_agent=agent),
        session_service=InMemorySessionService(),
        memory_service=memory.service,
    )
    await say(runner, PARROT, "I also like owls.", "And I like cats.")
    assert (await memory.texts("parrots")).count(PARROT) == 1
    assert (await memory.texts("owls")).count("I also like owls.") == 1
    assert (await memory.texts("cats")).count("And I like cats.") == 1


@SECTION.check(
    "adk web and adk api_server open it by a URI",
    "#2865, #2896: a service of one's own in adk web; google-adk's service registry",
)
async def by_uri(place: Place) -> None:
    place.kind.register()
    service = get_service_registry().create_memory_service(
        f"{place.kind.uri}:///{place.path}{place.kind.options}",
        agents_dir=str(place.folder),
    )
    assert service is not None, "no such scheme"
    place.adopt(service)
    await service.add_session_to_memory(a_trip())
    found = await service.search_memory(**ALICE, query="parrots")
    assert found.memories

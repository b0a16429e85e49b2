"""What is forgotten is gone: from the turn, from what turns keep, and truly."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types
from helpers.adk import a_runner, add, adk_service, say, shown_in
from helpers.tools import SCOPE, call, watched_service
from vecall.adk import PreloadMemoryTool, VecallMemoryService, forget_memory
from vecall.tools import ForgetMemory, PreloadMemory, Remember

service = pytest.fixture(adk_service)
memory = pytest.fixture(watched_service)
PIN = "My PIN is okapi."
ME = dict(zip(("app_name", "user_id"), SCOPE, strict=True))


class Obedient(BaseLlm):
    """Forgets what it is asked to, in both steps of one turn."""

    model: str = "obedient"
    requests: list[Any]

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(copy.deepcopy(llm_request.contents))
        answers = [
            part.function_response.response
            for content in llm_request.contents
            for part in content.parts
            if part.function_response
        ]
        arguments = [{"query": "PIN"}, *({"token": a.get("token")} for a in answers)]
        part = types.Part(text="Done.")
        if len(answers) < 2:
            asked = types.FunctionCall(name="forget_memory", args=arguments[-1])
            part = types.Part(function_call=asked)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def test_a_block_does_not_say_again_what_its_turn_forgot(
    service: VecallMemoryService,
) -> None:
    """S4.60: the block was made before; the requests after the deletion lack it."""
    add(service, PIN)
    preload = PreloadMemoryTool(min_confidence=None)
    runner, _ = a_runner(service, tools=(preload, forget_memory))
    runner.agent.model = Obedient(requests=[])
    asyncio.run(say(runner, "Forget my PIN, please."))
    first, *_, last = runner.agent.model.requests
    assert PIN in shown_in(first[-1])
    assert not any(
        PIN in shown_in(each) for each in last if "<PAST_CONV" in shown_in(each)
    )


def test_what_turns_keep_is_bounded_by_its_length(memory: Any) -> None:
    """S0.40: many turns with long blocks do not fill the process: here 19 MB."""
    long = [f"okapi {n} " + "lorem ipsum " * 4_000 for n in range(5)]
    memory.sync.add_memory(**ME, memories=long)
    preload = PreloadMemory(memory, *SCOPE, max_tokens=None)

    async def scenario() -> None:
        for turn in range(80):
            assert len(await preload.block("okapi", turn=turn)) > 200_000

    asyncio.run(scenario())
    kept = (preload.turns.get(SCOPE, turn) for turn in range(80))
    assert sum(len(each.block) for each in kept if each is not None) < 16_000_000


def told_again(memory: Any, _: str) -> None:
    call(Remember(memory, *SCOPE), {"text": PIN, "kind": "fact", "importance": 0.9})


def archived(memory: Any, id_: str) -> None:
    memory.sync.archive_memory(**ME, memory_id=id_)


def changed(memory: Any, id_: str) -> None:
    memory.sync.update_memory(**ME, memory_id=id_, content="Allergic to okapi milk!")


@pytest.mark.parametrize("meanwhile", [told_again, archived, changed])
def test_forgotten_is_only_said_of_what_is_gone(
    memory: Any, meanwhile: Callable[[Any, str], None]
) -> None:
    """S4.60: whatever happened to it between the two steps."""
    id_ = call(Remember(memory, *SCOPE), {"text": PIN})["id"]
    forget = ForgetMemory(memory, *SCOPE)
    shown = call(forget, {"query": "okapi"})
    assert [each["text"] for each in shown["memories"]] == [PIN]
    meanwhile(memory, id_)
    answer = call(forget, {"token": shown["token"]})
    found = [
        each.text
        for state in ("live", "archived", "quarantined")
        for each in memory.sync.list_memories(**ME, state=state)
    ]
    if meanwhile is changed:  # nobody was shown what it says now
        assert "Allergic to okapi milk!" in found
    gone = PIN not in found and "Allergic to okapi milk!" not in found
    assert (answer["status"] == "forgotten") is gone

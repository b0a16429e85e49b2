"""`preload_memory` in front of google-adk models that only hand on to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk import models
from google.adk.models import BaseLlm, Gemini, LlmRequest, LlmResponse
from google.genai import types
from helpers.adk import ROOM, a_runner, a_trip, adk_service, ingest, say
from vecall.adk import VecallMemoryService, preload_memory

service = pytest.fixture(adk_service)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.EXPERIMENTAL. feature FALLBACK_MODEL:UserWarning"
)


class HandsOn(BaseLlm):
    """A router, a cache or a retry of somebody's own."""

    model: str = "hands-on"
    to: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async for each in self.to.generate_content_async(llm_request, stream):
            yield each


def hands_on(to: Gemini) -> Any:
    return HandsOn(to=to)


def falls_back(to: Gemini) -> Any:
    if not hasattr(models, "FallbackModel"):
        pytest.skip("this google-adk has no FallbackModel")
    return models.FallbackModel(models=[to])


@pytest.mark.parametrize("wrapped", [hands_on, falls_back])
def test_a_block_reaches_gemini_through_a_model_that_hands_on(
    service: VecallMemoryService, monkeypatch: pytest.MonkeyPatch, wrapped: Any
) -> None:
    """S1.13: Gemini's client refuses every request with part_metadata for Vertex AI."""
    seen: list[types.Part] = []

    async def answer(self: Any, llm_request: Any, stream: bool = False) -> Any:
        seen.append(llm_request.contents[-1].parts[0])
        part = types.Part(text="Certainly.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

    monkeypatch.setattr(Gemini, "generate_content_async", answer)
    ingest(service, a_trip())
    runner, _ = a_runner(service, tools=(preload_memory,))
    runner.agent.model = wrapped(Gemini(model="gemini-2.5-flash"))
    asyncio.run(say(runner, "Which quiet room do I like?"))
    (part,) = seen
    assert ROOM in part.text
    assert getattr(part, "part_metadata", None) is None

"""Agents that save artifacts, and what a memory then knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import vecall
from google.adk.artifacts import BaseArtifactService
from google.adk.runners import Runner
from google.adk.tools import ToolContext, load_artifacts
from google.genai import types
from vecall.adk import (
    VecallMemoryPlugin,
    VecallMemoryService,
    load_memory,
    preload_memory,
)

from helpers.adk import ALICE, ScriptedLlm, a_runner, say

SEEDS = "A parrot eats seeds, at eight in the morning and at six in the evening."
NUTS = "A parrot eats nuts now, whenever it likes."


async def save(filename: str, text: str, tool_context: ToolContext) -> dict[str, int]:
    """Saves a text."""
    part = types.Part(text=text)
    return {"version": await tool_context.save_artifact(filename, part)}


async def save_bytes(
    filename: str, data: str, mime_type: str, tool_context: ToolContext
) -> dict[str, int]:
    """Saves bytes, given as hexadecimal digits."""
    part = types.Part.from_bytes(data=bytes.fromhex(data), mime_type=mime_type)
    return {"version": await tool_context.save_artifact(filename, part)}


TOOLS = (save, save_bytes, load_artifacts, load_memory, preload_memory)


def a_desk(
    memory: VecallMemoryService,
    artifacts: BaseArtifactService | None,
    *steps: Any,
    tools: tuple[Any, ...] = TOOLS,
    plugin: VecallMemoryPlugin | None = None,
) -> tuple[Runner, ScriptedLlm]:
    plugin = plugin or VecallMemoryPlugin(index_artifacts=True)
    runner, llm = a_runner(memory, *steps, tools=tools, plugins=(plugin,))
    runner.artifact_service = artifacts
    return runner, llm


def saved(*steps: Any) -> Iterator[Any]:
    """Script each step as a run of its own."""
    for step in steps:
        yield from (step, "Saved.")


def run(
    memory: VecallMemoryService,
    artifacts: BaseArtifactService | None,
    *calls: tuple[str, dict[str, Any]],
    session: str = "trip-1",
    plugin: VecallMemoryPlugin | None = None,
) -> None:
    """Have the model call tools, one in each run, and wait until all is remembered."""

    async def scenario() -> None:
        used = plugin or VecallMemoryPlugin(index_artifacts=True)
        runner, _ = a_desk(memory, artifacts, *saved(*calls), plugin=used)
        for _ in calls:
            await say(runner, "Go on.", session=session)
        await used.flush()

    asyncio.run(scenario())


def report(name: str, text: str) -> tuple[str, dict[str, Any]]:
    return "save", {"filename": name, "text": text}


def documents(memory: VecallMemoryService, query: str = "parrot eats") -> list[Any]:
    found = memory.memory.sync.search_memory(
        **ALICE, query=query, top_k=1_000, filter=vecall.Filter(kind="document")
    )
    return found.memories


def texts(memory: VecallMemoryService, query: str = "parrot eats") -> list[str]:
    return [each.text for each in documents(memory, query)]

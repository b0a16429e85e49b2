"""The programs of every door, for pydantic-ai and Strands Agents."""

from __future__ import annotations

import importlib.util

import pytest
from helpers.door_programs import Door, DoorPrograms, RememberingPrograms


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class CapabilityDoor(Door):
    module = "vecall.pydantic_ai"
    framework = "pydantic_ai"

    def open(self, home):
        from vecall.pydantic_ai import VecallMemory

        self.capability = VecallMemory(home.memory, home.app, home.user)
        self.asked = []

    async def ask(self, text, answer):
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse
        from pydantic_ai.models.function import FunctionModel

        async def model(messages, info):
            self.asked.append(messages)
            return ModelResponse([answer(messages)])

        agent = Agent(FunctionModel(model), capabilities=[self.capability])
        await agent.run(text)

    async def write(self, text):
        from pydantic_ai.messages import TextPart

        await self.ask(text, lambda messages: TextPart(" "))

    async def read(self):
        from pydantic_ai.messages import TextPart, ToolCallPart

        answers = [TextPart(" "), ToolCallPart("recall_memory", {"query": "zebra"})]
        # The question itself is remembered, too; it has no number.
        await self.ask("zebra", lambda messages: answers.pop())
        return self.asked[-1]

    async def recall(self):
        await self.read()
        parts = [part for message in self.asked[-2] for part in message.parts]
        return parts[0].content


class NotebookDoor(Door):
    module = "vecall.pydantic_ai.harness_store"
    framework = "pydantic_ai_harness"
    scopes = ("a", "ab", "a-", "A", "a.b", "a_", "c/a", "b/a/a", "main")

    def open(self, home):
        from vecall.pydantic_ai.harness_store import VecallMemoryStore

        self.store = VecallMemoryStore(home.memory, home.app, home.user)
        self.prefix = f"{home.scope}/"
        self.path = f"{home.scope}/same.md"

    async def version(self):
        file = await self.store.read(self.path, max_chars=99)
        return file and file.version

    async def write(self, text):
        version = await self.version()
        await self.store.write(self.path, text, expected_version=version)

    async def read(self):
        paths = await self.store.list_paths(self.prefix, limit=99)
        sizes = {"limit": 99, "max_files": 99, "max_chars": 999, "max_file_chars": 99}
        return [
            [await self.store.read(path, max_chars=99) for path in paths],
            await self.store.search(self.prefix, "zebra", **sizes),
        ]

    async def clear(self):
        version = await self.version()
        return await self.store.delete(self.path, expected_version=version)


class StrandsDoor(Door):
    module = "vecall.strands"
    framework = "strands"

    def open(self, home):
        from vecall.strands import VecallMemoryStore

        self.store = VecallMemoryStore(home.memory, home.app, home.user)

    async def write(self, text):
        await self.store.add(text)

    async def read(self):
        return await self.store.search("zebra")


@pytest.mark.skipif(not has("pydantic_ai"), reason="pydantic-ai is not installed")
class TestPydanticAI(RememberingPrograms):
    door = CapabilityDoor


@pytest.mark.skipif(
    not has("pydantic_ai_harness"), reason="the harness is not installed"
)
class TestNotebook(DoorPrograms):
    door = NotebookDoor


@pytest.mark.skipif(not has("strands"), reason="strands-agents is not installed")
class TestStrands(RememberingPrograms):
    door = StrandsDoor

"""The tools and resources of the MCP server, without a transport."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
from vecall import MemoryService
from vecall.mcp.answers import Answers
from vecall.mcp.tools import Access

from helpers.memories import ALICE


class Client:
    """One user's client: its tools and resources, in process."""

    def __init__(self, memory: MemoryService, who: Any = ALICE, **access: Any) -> None:
        most = access.pop("max_tokens", 2_000)
        self.memory = memory
        self.who = who
        self.answers = Answers(memory, Access(**who, **access), max_tokens=most)
        self.tools = {each["name"]: each for each in self.answers.list_tools()["tools"]}

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A tool's answer, which fits its schema, or its error."""
        return self.call_with(name, arguments)

    def call_with(self, name: str, arguments: Any) -> dict[str, Any]:
        result = asyncio.run(self.answers.call_tool(name, arguments))
        (content,) = result["content"]
        if result["isError"]:
            assert set(result) == {"content", "isError"}
            return {"error": content["text"]}
        answer = result["structuredContent"]
        assert json.loads(content["text"]) == answer
        jsonschema.validate(answer, self.tools[name]["outputSchema"])
        return answer

    def read(self, uri: str) -> str:
        (content,) = asyncio.run(self.answers.read_resource(uri, 4))["contents"]
        assert content["uri"] == uri
        return content["text"]

    def texts(self) -> list[str]:
        found = self.memory.sync.list_memories(**self.who, limit=1_000)
        return [entry.text for entry in found]

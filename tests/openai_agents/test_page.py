"""The program of the page about the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.paths import ROOT

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class Echo(Model):
    """A model that answers with the number of its input's items."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions, input, *_: Any, **__: Any) -> Any:
        self.inputs.append(input)
        part = ResponseOutputText(
            annotations=[], text=f"answer {len(self.inputs)}", type="output_text"
        )
        message = ResponseOutputMessage(
            id=f"m{len(self.inputs)}",
            content=[part],
            role="assistant",
            status="completed",
            type="message",
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def test_the_program_of_the_page_remembers_and_recalls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    set_tracing_disabled(True)
    page = (ROOT / "docs/guide/openai-agents.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.strip().splitlines()) <= 15
    names: dict[str, Any] = {}
    exec(program.replace('"memory.db"', '"memory.db", embedder=None'), names)
    model = names["agent"].model = Echo()
    with names["memory"] as memory:
        memory.sync.add_memory(
            app_name="hotel", user_id="alice", memories=["Alice feeds an okapi"]
        )

        async def talk() -> None:
            assert await names["chat"]("my okapi?") == "answer 1"
            assert await names["chat"]("and my zebra?") == "answer 2"
            items = await names["session"].get_items()
            assert [item["role"] for item in items] == ["user", "assistant"] * 2
            assert "Alice feeds" not in str(items)

        asyncio.run(talk())
        assert "Alice feeds an okapi" in str(model.inputs[0][0])
        assert str(model.inputs[1]).count("my okapi?") == 1
        entries = memory.sync.list_memories(app_name="hotel", user_id="alice")
        assert sorted(entry.text for entry in entries) == [
            "Alice feeds an okapi",
            "and my zebra?",
            "answer 1",
            "answer 2",
            "my okapi?",
        ]

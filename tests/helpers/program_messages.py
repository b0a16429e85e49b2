"""Messages that nobody said, in the shapes of every provider."""

from __future__ import annotations

from types import SimpleNamespace

SECRET = "the discount code is wombat"
ARGUMENTS = '{"city": "Oslo"}'
CALL = {"name": "f", "arguments": ARGUMENTS}
TOOL_CALL = {"id": "c", "type": "function", "function": CALL}
CALL_TEXT = f"(call) f {ARGUMENTS}"


def block(type_, **fields):
    return {"type": type_, **fields}


PROGRAMS = {
    "OpenAI's system": ({"role": "system", "content": SECRET}, "system", SECRET),
    "OpenAI's developer": ({"role": "developer", "content": SECRET}, "system", SECRET),
    "parts of a system": (
        {"role": "system", "content": [block("text", text=SECRET)]},
        "system",
        SECRET,
    ),
    "OpenAI's tool": (
        {"role": "tool", "tool_call_id": "c", "content": SECRET},
        "calls",
        f"(response) {SECRET}",
    ),
    "OpenAI's function": (
        {"role": "function", "name": "f", "content": SECRET},
        "calls",
        f"(response) f {SECRET}",
    ),
    "a call in responses": (
        block("function_call", call_id="c", **CALL),
        "calls",
        CALL_TEXT,
    ),
    "an output in responses": (
        block("function_call_output", call_id="c", output=SECRET),
        "calls",
        f"(response) {SECRET}",
    ),
    "reasoning in responses": (
        block("reasoning", summary=[block("summary_text", text=SECRET)]),
        "thoughts",
        f"(thought) {SECRET}",
    ),
    "LangChain's system": (block("system", content=SECRET), "system", SECRET),
    "LangChain's tool": (
        block("tool", content=SECRET, tool_call_id="c", name="f"),
        "calls",
        f"(response) f {SECRET}",
    ),
    "LangChain's tool in an envelope": (
        {"type": "tool", "data": {"content": SECRET, "tool_call_id": "c"}},
        "calls",
        f"(response) {SECRET}",
    ),
    "LangChain's object": (
        SimpleNamespace(type="tool", content=SECRET, name="f"),
        "calls",
        f"(response) f {SECRET}",
    ),
    "LangChain's dump": (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "ToolMessage"],
            "kwargs": {"content": SECRET, "name": "f", "type": "tool", "id": "7"},
        },
        "calls",
        f"(response) f {SECRET}",
    ),
    "a dump without a type": (
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", "system", "SystemMessage"],
            "kwargs": {"content": SECRET, "additional_kwargs": {}},
        },
        "system",
        SECRET,
    ),
    "a role in another case": (
        {"role": "System", "content": SECRET},
        "system",
        SECRET,
    ),
    "a role in capitals": (
        {"role": " TOOL ", "content": SECRET},
        "calls",
        f"(response) {SECRET}",
    ),
    "a type in another case": (block("Developer", content=SECRET), "system", SECRET),
    "google-adk's content": (
        {"author": "x", "content": {"role": "system", "parts": [{"text": SECRET}]}},
        "system",
        SECRET,
    ),
}

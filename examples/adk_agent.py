"""A google-adk agent that remembers over a restart.

    pip install "vecall[adk]"
    python adk_agent.py

Without a key a small scripted model answers, offline. With GOOGLE_API_KEY set, the same
agent talks to Gemini.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from vecall.adk import VecallMemoryPlugin, VecallMemoryService, load_memory

APP, USER = "concierge", "alice"


class OfflineModel(BaseLlm):
    """Looks a question up with load_memory and repeats the first memory it gets."""

    model: str = "offline"

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer the last content of the request."""
        last = llm_request.contents[-1].parts[0]
        if last.function_response:
            memories = last.function_response.response["memories"]
            said = memories[0]["text"] if memories else "nothing"
            answer = types.Part(text=f"You told me: {said}")
        elif last.text.endswith("?"):
            call = types.FunctionCall(name="load_memory", args={"query": last.text})
            answer = types.Part(function_call=call)
        else:
            answer = types.Part(text="I will remember that.")
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


async def converse(memory: VecallMemoryService, session_id: str, *texts: str) -> None:
    """Hold one session with the agent, and print it; the plugin remembers it."""
    online = bool(os.environ.get("GOOGLE_API_KEY"))
    agent = LlmAgent(
        name="concierge",
        model=LlmAgent.DEFAULT_MODEL if online else OfflineModel(),
        instruction="You are the concierge of a hotel. Answer in one sentence.",
        tools=[load_memory],
    )
    runner = Runner(
        app=App(name=APP, root_agent=agent, plugins=[VecallMemoryPlugin()]),
        session_service=InMemorySessionService(),
        memory_service=memory,
    )
    scope = {"app_name": APP, "user_id": USER, "session_id": session_id}
    await runner.session_service.create_session(**scope)
    print(f"session {session_id}")
    for text in texts:
        print(f"  user:     {text}")
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for event in runner.run_async(
            user_id=USER, session_id=session_id, new_message=message
        ):
            for response in event.get_function_responses():
                print_recalled(response)
            if event.error_message:
                print(f"  error:    {event.error_message}")
            elif event.is_final_response() and event.content:
                parts = event.content.parts or []
                said = [part.text or "" for part in parts if not part.thought]
                print(f"  agent:    {''.join(said)}")
    await runner.close()


def print_recalled(response: types.FunctionResponse) -> None:
    """Print what load_memory gave to the model."""
    for memory in response.response["memories"]:
        who, day = memory["author"], memory["timestamp"][:10]
        print(f"  recalled: {who}, {day}: {memory['text']}")


def main() -> None:
    """Hold two sessions with a restart of the memory between them."""
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.db"

        wish = "I would like a quiet room on a high floor, away from the lift."
        hobby = "I collect stamps with parrots."
        with closing(VecallMemoryService(file)) as memory:
            asyncio.run(converse(memory, "trip-1", wish, hobby))

        print(f"restart: {file.name} is all that is left")

        with closing(VecallMemoryService(file)) as memory:
            asyncio.run(converse(memory, "trip-2", "Which room would I like?"))


if __name__ == "__main__":
    main()

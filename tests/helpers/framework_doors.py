"""Says awkward turns between ordinary ones through the doors of frameworks.

A door of memories is a function of a service and a turn; what it stored is in the
service. A store is one that also returns what it was given and what it gives back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from vecall import MemoryService

from helpers.awkward_turns import AwkwardTurn, conversation
from helpers.own_doors import WHO, said

OWNER = tuple(WHO.values())


def require(package: str) -> None:
    """Skip the test if a framework is not installed."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def openai_ingesting(memory: MemoryService, turn: AwkwardTurn) -> None:
    from vecall.openai_agents import IngestingSession, VecallSession

    session = IngestingSession(VecallSession("s", memory, *OWNER), memory, *OWNER)
    asyncio.run(session.add_items([dict(each) for each in conversation(turn)]))


def llama_index_block(memory: MemoryService, turn: AwkwardTurn) -> None:
    from llama_index.core.llms import ChatMessage, ImageBlock, TextBlock
    from vecall.llama_index import VecallMemoryBlock

    def block(part: Any) -> Any:
        if part["type"] == "text":
            return TextBlock(text=part["text"])
        return ImageBlock(url=part["image_url"]["url"])

    def message(each: Any) -> Any:
        content = each["content"]
        if isinstance(content, list):
            content = [block(part) for part in content]
        return ChatMessage(role=each["role"], content=content)

    messages = [message(each) for each in conversation(turn)]
    asyncio.run(VecallMemoryBlock(memory, *OWNER).aput(messages))


def _agent_framework_messages(turn: AwkwardTurn) -> list[Any]:
    from agent_framework import Content, Message

    def contents(each: Any) -> list[Any]:
        content = each["content"]
        if each["role"] == "tool":
            return [Content.from_function_result("c1", result=content)]
        if isinstance(content, list):
            photo = content[1]["image_url"]["url"]
            uri = Content.from_uri(photo, media_type="image/png")
            return [content[0]["text"], uri]
        calls = [
            Content.from_function_call("c1", **call["function"])
            for call in each.get("tool_calls", ())
        ]
        return [*([] if content is None else [content]), *calls]

    return [Message(each["role"], contents(each)) for each in conversation(turn)]


def agent_framework_context(memory: MemoryService, turn: AwkwardTurn) -> None:
    from agent_framework import SessionContext
    from vecall.agent_framework import VecallContextProvider

    messages = _agent_framework_messages(turn)
    context = SessionContext(session_id="s", input_messages=messages)
    provider = VecallContextProvider(memory, *OWNER)
    asyncio.run(provider.after_run(agent=None, session=None, context=context, state={}))


def pydantic_ai_capability(memory: MemoryService, turn: AwkwardTurn) -> None:
    """What the user says is a prompt; what the assistant says, an output."""
    from pydantic_ai import Agent, BinaryContent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from vecall.pydantic_ai import VecallMemory

    capability = VecallMemory(memory, *OWNER, preload=False, write=False)
    for each in conversation(turn):
        prompt: Any = each["content"]
        output = "filler"
        if isinstance(prompt, list):
            photo = BinaryContent.from_data_uri(prompt[1]["image_url"]["url"])
            prompt = [prompt[0]["text"], photo]
        elif each["role"] == "assistant":
            prompt, output = "filler", prompt or "filler"
        elif each["role"] != "user":
            continue

        def answer(*_: Any, text: str = output) -> ModelResponse:
            return ModelResponse([TextPart(text)])

        agent = Agent(FunctionModel(answer), capabilities=[capability])
        agent.run_sync(prompt)
    for entry in memory.sync.list_memories(**WHO, limit=1_000):
        if entry.text == "filler":
            memory.sync.delete_memory(**WHO, memory_id=entry.id)


def autogen_memory(memory: MemoryService, turn: AwkwardTurn) -> None:
    from autogen_core.memory import MemoryContent, MemoryMimeType
    from vecall.autogen import VecallMemory

    async def add() -> None:
        for text in said(turn):
            content = MemoryContent(content=text, mime_type=MemoryMimeType.TEXT)
            await VecallMemory(memory, *OWNER).add(content)

    asyncio.run(add())


def strands_store(memory: MemoryService, turn: AwkwardTurn) -> None:
    from vecall.strands import VecallMemoryStore

    async def add() -> None:
        for text in said(turn):
            await VecallMemoryStore(memory, *OWNER).add(text, {"a": 1})

    asyncio.run(add())


def mem0_add(memory: MemoryService, turn: AwkwardTurn) -> None:
    from vecall.mem0 import Memory

    Memory(memory, app_name=WHO["app_name"]).add(conversation(turn), user_id="alice")


def langchain_middleware(memory: MemoryService, turn: AwkwardTurn) -> None:
    """Each message is the input of a run; the assistant's, what the model answers."""
    from langchain_core.messages import AIMessage, convert_to_messages

    from helpers.langchain_agents import agent_of

    for each in convert_to_messages([dict(each) for each in conversation(turn)]):
        is_answer = isinstance(each, AIMessage)
        answer = AIMessage(each.content if is_answer else "")
        agent, _ = agent_of(memory, OWNER, answer, preload=False)
        asked = [{"role": "user", "content": ""}] if is_answer else [each]
        agent.invoke({"messages": asked}, {"configurable": {"thread_id": "s"}})


WHOSE = {"mem0: `add`": {**WHO, "user_id": "u:alice"}}
"""The user of vecall where it is not the one that the door is given."""

MEMORIES: dict[str, tuple[str, Callable[[MemoryService, AwkwardTurn], None]]] = {
    "OpenAI Agents: `IngestingSession`": ("agents", openai_ingesting),
    "LlamaIndex: `VecallMemoryBlock`": ("llama_index", llama_index_block),
    "Agent Framework: `VecallContextProvider`": (
        "agent_framework",
        agent_framework_context,
    ),
    "pydantic-ai: `VecallMemory`": ("pydantic_ai", pydantic_ai_capability),
    "LangChain: `VecallMemoryMiddleware`": ("langchain", langchain_middleware),
    "AutoGen: `VecallMemory`": ("autogen_core", autogen_memory),
    "Strands: `VecallMemoryStore`": ("strands", strands_store),
    "mem0: `add`": ("vecall", mem0_add),
}
"""The package that each door of memories needs, and the door."""


def openai_session(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from vecall.openai_agents import VecallSession

    given = [dict(each) for each in conversation(turn)]

    async def kept() -> Any:
        session = VecallSession("s", memory, *OWNER)
        await session.add_items(given)
        return await session.get_items()

    return given, asyncio.run(kept())


def langchain_history(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from langchain_core.messages import convert_to_messages
    from vecall.langchain import VecallChatMessageHistory

    given = convert_to_messages([dict(each) for each in conversation(turn)])

    async def kept() -> Any:
        history = VecallChatMessageHistory("s", memory, *OWNER)
        await history.aadd_messages(given)
        return await history.aget_messages()

    return given, asyncio.run(kept())


def agent_framework_history(
    memory: MemoryService, turn: AwkwardTurn
) -> tuple[Any, Any]:
    from vecall.agent_framework import VecallHistoryProvider

    given = _agent_framework_messages(turn)

    async def kept() -> Any:
        provider = VecallHistoryProvider(memory, *OWNER)
        await provider.save_messages("s", given)
        return await provider.get_messages("s")

    found = asyncio.run(kept())
    return [each.to_dict() for each in given], [each.to_dict() for each in found]


def harness_store(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from vecall.pydantic_ai.harness_store import VecallMemoryStore

    async def kept() -> list[Any]:
        store = VecallMemoryStore(memory, *OWNER)
        found = []
        for at, text in enumerate(said(turn)):
            await store.write(f"a/{at}", text, expected_version=None)
            found.append(await store.read(f"a/{at}", max_chars=10_000_000))
        return [each.content for each in found if each is not None]

    return said(turn), asyncio.run(kept())


def langgraph_store(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from vecall.langgraph import VecallStore

    store = VecallStore(memory)
    given = [dict(each) for each in conversation(turn)]
    for at, each in enumerate(given):
        store.put(("s",), f"{at}", each)
    found = [store.get(("s",), f"{at}") for at in range(3)]
    return given, [each.value for each in found if each is not None]


def crewai_storage(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from crewai.memory.types import MemoryRecord
    from vecall.crewai import VecallStorage

    given = [
        MemoryRecord(id=f"{at}", content=text, embedding=[1.0, at])
        for at, text in enumerate(said(turn))
    ]
    storage = VecallStorage(memory)
    storage.save(given)
    found = [storage.get_record(each.id) for each in given]
    return [each.content for each in given], [each and each.content for each in found]


def haystack_store(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from haystack import Document
    from vecall.haystack import VecallDocumentStore

    given = [
        Document(id=f"{at}", content=text, embedding=[1.0, 2.0])
        for at, text in enumerate(said(turn))
    ]
    with TemporaryDirectory() as folder:
        store = VecallDocumentStore(f"{folder}/m.db")
        store.write_documents(given)
        found = store.filter_documents()
        store.close()
    return given, found


def llama_index_store(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from llama_index.core.schema import TextNode
    from vecall.llama_index import VecallVectorStore

    given = [
        TextNode(id_=f"{at}", text=text, embedding=[1.0, 2.0])
        for at, text in enumerate(said(turn))
    ]
    store = VecallVectorStore(memory)
    store.add(given)
    found = store.get_nodes([each.id_ for each in given])
    return [each.text for each in given], [each.text for each in found]


def langchain_store(memory: MemoryService, turn: AwkwardTurn) -> tuple[Any, Any]:
    from langchain_core.embeddings import FakeEmbeddings
    from vecall.langchain import VecallVectorStore

    texts = said(turn)
    store = VecallVectorStore(FakeEmbeddings(size=4), memory)
    ids = store.add_texts(texts)
    return texts, [each.page_content for each in store.get_by_ids(ids)]


STORES: dict[str, tuple[str, Callable[[MemoryService, AwkwardTurn], Any]]] = {
    "OpenAI Agents: `VecallSession`": ("agents", openai_session),
    "LangChain: `VecallChatMessageHistory`": ("langchain_core", langchain_history),
    "Agent Framework: `VecallHistoryProvider`": (
        "agent_framework",
        agent_framework_history,
    ),
    "pydantic-ai-harness: `VecallMemoryStore`": ("pydantic_ai_harness", harness_store),
    "LangGraph: `VecallStore`": ("langgraph", langgraph_store),
    "CrewAI: `VecallStorage`": ("crewai", crewai_storage),
    "Haystack: `VecallDocumentStore`": ("haystack", haystack_store),
    "LlamaIndex: `VecallVectorStore`": ("llama_index", llama_index_store),
    "LangChain: `VecallVectorStore`": ("langchain_core", langchain_store),
}
"""The package that each store needs, and the store."""

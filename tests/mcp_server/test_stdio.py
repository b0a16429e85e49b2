"""`vecall mcp` over the standard input and output, in processes of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from helpers.mcp_clients import PROGRAM, fields, over_stdio, sdk_session, started
from vecall import MemoryService

pytest.importorskip("mcp", reason="mcp is not installed")

import anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
from vecall.mcp.answers import Answers
from vecall.mcp.server import IS_FIRST, sdk_server_of
from vecall.mcp.tools import Access

ME = {"app_name": "coding-agents", "user_id": "me"}
NOISY = """
import os, sys
class Noisy:
    model_id = "noisy"
    dimensions = 3
    def __init__(self):
        print("printed while the model is loaded")
    def embed(self, texts):
        print("printed")
        os.write(1, b"written\\n")
        os.system("echo echoed")
        return [[1.0, 2.0, 3.0] for _ in texts]
"""


def stored(path: Any) -> list[str]:
    """The texts in the file, once no process serves it."""
    with MemoryService(path, embedder=None) as memory:
        return [each.text for each in memory.sync.list_memories(**ME, limit=1_000)]


def test_the_client_of_the_sdk_uses_tools_resources_and_prompts(tmp_path):
    arguments = [*PROGRAM[1:], "--path", str(tmp_path / "memory.db")]
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ)
    )

    async def use() -> None:
        async with sdk_session(stdio_client(parameters)) as session:
            tools = fields(await session.list_tools())["tools"]
            assert "search_memory" in [tool["name"] for tool in tools]
            arguments = {"text": "Alice keeps an okapi", "kind": "fact"}
            added = fields(await session.call_tool("add_memory", arguments))
            assert added["structuredContent"]["status"] == "remembered"
            found = fields(await session.call_tool("search_memory", {"query": "okapi"}))
            (memory,) = found["structuredContent"]["memories"]
            assert memory["text"] == "Alice keeps an okapi"
            wrong = fields(await session.call_tool("search_memory", {"query": 5}))
            assert wrong["isError"]
            assert wrong["content"][0]["text"] == "query: expected a string"
            listed = fields(await session.list_resources())["resources"]
            assert len(listed) == 2
            for resource in listed:
                read = fields(await session.read_resource(resource["uri"]))
                assert "Alice keeps an okapi" in read["contents"][0]["text"]
            found = fields(await session.list_resource_templates())
            assert found["resourceTemplates"][0]["uriTemplate"].startswith("memory:")
            prompt = fields(await session.get_prompt("recall", {"topic": "okapis"}))
            assert "okapis" in prompt["messages"][0]["content"]["text"]

    asyncio.run(use())
    assert stored(tmp_path / "memory.db") == ["Alice keeps an okapi"]


def test_the_output_carries_nothing_but_the_protocol(tmp_path, monkeypatch):
    (tmp_path / "noisy_embedder.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    with over_stdio(tmp_path / "memory.db", embedder="noisy_embedder:Noisy") as client:
        assert client.call("add_memory", text="an okapi")["status"] == "remembered"
        assert client.call("search_memory", query="okapi")["memories"]
        out, err = client.process.communicate(timeout=20)
    assert out == ""
    for printed in ("printed", "written", "echoed"):
        assert printed in err
    assert client.process.returncode == 0


def test_what_is_no_message_is_answered_and_the_next_is_served(tmp_path):
    with over_stdio(tmp_path / "memory.db") as client:
        for line, id_, code in (
            (b"garbage", None, -32700),
            (b"[" * 100_000, None, -32700),
            (b"\xff\xfe", None, -32700),
            (b"[]", None, -32600),
            (b'{"jsonrpc":"2.0","id":"x"}', "x", -32600),
            (b'{"id":7,"method":"ping"}', 7, -32600),
            (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":"\\ud800"}', 8, -32600),
            (b'{"a":"' + b"x" * 5_000_000 + b'"}', None, -32700),
        ):
            client.put(line)
            answer = client.get()
            assert (answer["id"], answer["error"]["code"]) == (id_, code)
        client.put(b"")
        assert client.ask("ping")["result"] == {}
        unknown = client.ask("tools/call", name="nope", arguments={})["error"]
        assert unknown["code"] == -32602
        error = client.ask("resources/read", uri="memory://nope")["error"]
        assert (error["code"], error["data"]) == (-32002, {"uri": "memory://nope"})


def test_the_end_of_the_input_answers_what_was_asked(tmp_path):
    """Also where the last line lacks its end, and the input is a file."""
    lines = [
        {
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
    ]
    for number in range(1, 21):
        arguments = {"text": f"okapi number {number}"}
        params = {"name": "add_memory", "arguments": arguments}
        lines.append({"id": number, "method": "tools/call", "params": params})
    text = "\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in lines)
    (tmp_path / "lines").write_text(text)
    path = tmp_path / "memory.db"
    with (tmp_path / "lines").open() as file:
        done = subprocess.run(
            [*PROGRAM, "--path", path],
            check=False,
            stdin=file,
            capture_output=True,
            timeout=30,
        )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(21))
    assert len(stored(path)) == 20


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, 9])
def test_no_acknowledged_write_is_lost_when_the_process_ends(tmp_path, number):
    path = tmp_path / "memory.db"
    acknowledged: list[str] = []
    with over_stdio(path) as client:
        asked = {
            client.begin(
                "tools/call", name="add_memory", arguments={"text": f"okapi {n}"}
            ): f"okapi {n}"
            for n in range(60)
        }
        assert client.process.stdout is not None
        for at, line in enumerate(client.process.stdout):
            answer = json.loads(line)
            assert answer["result"]["structuredContent"]["status"] == "remembered"
            acknowledged.append(asked[answer["id"]])
            if at == 9:
                client.process.send_signal(number)
        status = client.process.wait(20)
    assert len(acknowledged) >= 10
    assert status == (-number if number == 9 else 0)
    assert set(acknowledged) <= set(stored(path))


def test_a_client_that_reads_nothing_does_not_keep_the_process_alive(tmp_path):
    with over_stdio(tmp_path / "memory.db") as client:
        for _ in range(60):
            client.begin("tools/list")  # more than a pipe holds
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(20) == 0


def test_a_client_that_reads_nothing_and_ends_its_input_ends_the_process(tmp_path):
    with over_stdio(tmp_path / "memory.db") as client:
        for _ in range(60):
            client.begin("tools/list")
        client.close("stdin")
        assert client.process.wait(20) == 0


def test_a_client_that_is_gone_ends_the_process(tmp_path):
    with over_stdio(tmp_path / "memory.db") as client:
        client.close("stdout")
        client.begin("tools/list")
        assert client.process.wait(20) == 0


def test_a_cancelled_request_leaves_the_others_alone(tmp_path):
    with over_stdio(tmp_path / "memory.db") as client:
        numbers = []
        for n in range(20):
            arguments = {"text": f"okapi {n}"}
            numbers.append(
                client.begin("tools/call", name="add_memory", arguments=arguments)
            )
            if n % 2:
                params = {"requestId": numbers[-1]}
                client.put({"method": "notifications/cancelled", "params": params})
        last = client.begin("ping")
        answered = set()
        while not {*numbers[::2], last} <= answered:
            answered.add(client.get()["id"])
        assert client.end() == 0
    texts = stored(tmp_path / "memory.db")
    assert {f"okapi {n}" for n in range(0, 20, 2)} <= set(texts)
    assert len(texts) == len(set(texts))


@pytest.mark.skipif(not IS_FIRST, reason="version 2 of the SDK needs no help")
def test_a_request_that_is_cancelled_when_it_has_been_done_has_no_answer(tmp_path):
    """The SDK has answered it then, and ends if it gets another answer."""
    from mcp import types

    answers: list[Any] = []

    async def program() -> None:
        class Late(Answers):
            async def call_tool(self, *given: Any) -> Any:
                answer = await super().call_tool(*given)
                scope.cancel()
                return answer

        handlers = sdk_server_of(
            Late(service, Access(app_name="a", user_id="u"))
        ).request_handlers
        params = {"name": "add_memory", "arguments": {"text": "okapi"}}
        request = types.CallToolRequest(method="tools/call", params=params)
        with anyio.CancelScope() as scope:
            answers.append(await handlers[types.CallToolRequest](request))
        assert scope.cancelled_caught

    with MemoryService(tmp_path / "memory.db", embedder=None) as service:
        asyncio.run(program())
        listed = service.sync.list_memories(app_name="a", user_id="u")
        assert [each.text for each in listed] == ["okapi"]
    assert answers == []


def test_three_clients_write_to_one_file_at_once(tmp_path):
    """Nothing is lost, and what all three write is one memory."""
    path = tmp_path / "memory.db"
    with over_stdio(path) as a, over_stdio(path) as b, over_stdio(path) as c:
        ids: list[set[str]] = []

        def write(client: Any, name: str) -> None:
            texts = [f"{name} {n}" for n in range(25)] + [f"all {n}" for n in range(25)]
            ids.append({client.call("add_memory", text=text)["id"] for text in texts})

        clients = zip((a, b, c), "abc", strict=True)
        threads = [threading.Thread(target=write, args=each) for each in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(each) for each in ids] == [50, 50, 50]
        assert len(set.union(*ids)) == 100
        for client in (a, b, c):
            found = client.call("search_memory", query="all 7", limit=50)
            assert "all 7" in [each["text"] for each in found["memories"]]
    texts = stored(path)
    expected = {f"{name} {n}" for name in ("a", "b", "c", "all") for n in range(25)}
    assert sorted(texts) == sorted(expected)


def test_a_reader_beside_a_writer_sees_the_newest_and_may_not_write(tmp_path):
    path = tmp_path / "memory.db"
    with over_stdio(path) as writer, over_stdio(path, "--read-only") as reader:
        names = [tool["name"] for tool in reader.ask("tools/list")["result"]["tools"]]
        assert "add_memory" not in names
        writer.call("add_memory", text="Alice keeps an okapi")
        assert reader.call("search_memory", query="okapi")["memories"]


def test_two_users_of_one_file_see_nothing_of_each_other(tmp_path):
    path = tmp_path / "memory.db"
    with over_stdio(path) as me, over_stdio(path, "--user", "bob") as bob:
        id_ = bob.call("add_memory", text="Bob keeps a zebra")["id"]
        assert me.call("search_memory", query="zebra", user="bob")["memories"] == []
        assert "no such memory" in me.call("get_memory", id=id_)["error"]


def test_a_file_that_cannot_be_served_is_named_without_a_trace(tmp_path):
    (tmp_path / "other.db").write_bytes(b"not a memory file " * 1_000)
    with started(tmp_path / "other.db") as client:
        out, err = client.process.communicate(timeout=20)
    assert client.process.returncode == 1
    assert out == ""
    assert "other.db" in err
    assert "Traceback" not in err

"""Lines that no export has: named, refused, and nothing of them stays."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from helpers.embedders import Recorder
from helpers.memories import ALICE
from vecall import InvalidArgumentError, MemoryEntry, MemoryService, VecallError

EMBEDDER = Recorder(6)
QUERIES = ["zebra", "okapi new", "user: zebra 3", "fact7"]


def everything(service: MemoryService) -> list[Any]:
    """Answers of several searches, whole entries with their scores."""
    return [
        service.sync.search_memory(**ALICE, query=query, top_k=1000).memories
        for query in QUERIES
    ]


def texts(service: MemoryService) -> list[str]:
    found = service.sync.search_memory(**ALICE, query="zebra okapi", top_k=1000)
    return sorted(memory.text for memory in found.memories)


@pytest.fixture
def origin(open_service, tmp_path) -> MemoryService:
    service = open_service(tmp_path / "m.db", embedder=EMBEDDER)
    events = [
        {
            "id": f"e{i}",
            "author": ("user", "agent")[i % 2],
            "timestamp": 1e9 + i,
            "text": f"zebra {i}",
            "custom_metadata": {"n": i, "deep": [{"x": None}, "\u00e9"]},
        }
        for i in range(12)
    ]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": events})
    facts: list[Any] = [
        MemoryEntry(f"okapi fact{i}", id=f"f{i}", importance=i / 10, kind="fact")
        for i in range(9)
    ]
    facts.append(MemoryEntry({"parts": [{"text": "okapi"}, {"text": "x"}]}, id="odd"))
    service.sync.add_memory(**ALICE, memories=facts)
    changed = MemoryEntry("okapi new", id="f1", importance=0.5)
    service.sync.add_memory(**ALICE, memories=[changed])
    service.sync.delete_memory(**ALICE, memory_id="f2")
    return service


BAD_HEADERS = [
    b"",
    b"\n",
    b"[]\n",
    b"{}\n",
    b'{"vecall":"export","format":2,"model":null}\n',
    b'{"vecall":"export","format":1,"model":7}\n',
    b'{"vecall":"export","format":1,"model":{"name":"recorder"}}\n',
    b'{"vecall":"export","format":1,"model":{"name":"r","dim":"x"}}\n',
    b'{"vecall":"export","format":1,"model":{"name":"r","dim":6,"fingerprint":7}}\n',
    b'{"vecall":"export","format":1,"model":{"name":"r","dim":6,"fingerprint":"AAA="}}\n',
    b'{"vecall":"export","format":1,"model":{"name":"r","dim":1,"fingerprint":"AADAfw=="}}\n',
    b'{"vecall":"export","format":1,"model":{"name":"\\ud800","dim":6}}\n',
    b'{"vecall":"import","format":1}\n',
    b"SQLite format 3\0\xff\xfe\n",
]


def test_another_header_is_refused(open_service, tmp_path):
    file = tmp_path / "in"
    service = open_service(tmp_path / "m.db", embedder=EMBEDDER)
    for header in BAD_HEADERS:
        file.write_bytes(header + b'{"part":{"app":"a","user":"u","created_at":0}}\n')
        with pytest.raises(InvalidArgumentError, match="line 1"):
            service.sync.admin.import_jsonl(file)
        assert service.sync.admin.stats()["users"] == 0, header


MEM = {
    "id": "x",
    "text": "zebra bad",
    "created_at": 1.0,
    "updated_at": 1.0,
    "state": "live",
}
BAD_LINES: list[Any] = [
    b"{not json",
    b"\xff\xfe{}",
    [1],
    {"mem": 7},
    {"mem": MEM, "tomb": {"id": "x", "at": 1.0}},
    {"part": {"app": "", "user": "u", "created_at": 0}},
    {"part": {"app": "a", "user": "u", "created_at": "x"}},
    {"tomb": {}},
    {"tomb": {"id": 7, "at": 1.0}},
    {"tomb": {"id": "x", "at": "y"}},
    {"hist": {"id": "x"}},
    {"trig": {"session": ["s"]}},
    *({"mem": {k: v for k, v in MEM.items() if k != left}} for left in MEM),
    {"mem": {**MEM, "id": "a\0b"}},
    {"mem": {**MEM, "id": "x" * 100_000}},
    {"mem": {**MEM, "text": "\ud800"}},
    {"mem": {**MEM, "text": 7}},
    {"mem": {**MEM, "ts": float("nan")}},
    {"mem": {**MEM, "pos": 2**63}},
    {"mem": {**MEM, "state": "forgotten"}},
    {"tomb": {"id": "x", "at": 1.0, "why": "bored"}},
    {"replaced": {"id": "x", "by": "y", "at": 1.0}},
    {"told": {"session": "s", "id": "x", "at": 1.0, "event": "[7"}},
    {"mem": {**MEM, "vec": "not base64!"}},
    {"mem": {**MEM, "vec": "AAAA"}},
    {"mem": {**MEM, "vec": 7}},
    {"mem": {**MEM, "meta": "{not json"}},
    {"mem": {**MEM, "content": "[7"}},
]


def test_a_damaged_line_is_named_and_those_before_it_are_in(
    open_service, origin, tmp_path
):
    """Guarantee 6: bad input is refused with a typed error, and nothing of it stays."""
    file, path = tmp_path / "in", tmp_path / "other.db"
    origin.sync.admin.export_jsonl(file, **ALICE)
    lines = file.read_bytes().splitlines(keepends=True)
    at = 15
    told = [json.loads(line) for line in lines[: at - 1]]
    before = sorted(line["mem"]["text"] for line in told if "mem" in line)
    other = open_service(path, embedder=EMBEDDER)
    for bad in BAD_LINES:
        wrong = bad if isinstance(bad, bytes) else json.dumps(bad).encode()
        file.write_bytes(b"".join([*lines[: at - 1], wrong, b"\n", *lines[at - 1 :]]))
        with pytest.raises(InvalidArgumentError, match=rf"line {at}\b") as caught:
            other.sync.admin.import_jsonl(file)
        assert "zebra" not in str(caught.value), bad
        assert texts(other) == before, bad
    other.close()
    with open_service(path, embedder=EMBEDDER) as again:
        assert texts(again) == before
        file.write_bytes(b"".join(lines))
        again.sync.admin.import_jsonl(file)
        assert everything(again) == everything(origin)


def test_an_export_with_any_damage_never_spoils_a_file(open_service, origin, tmp_path):
    """Guarantee 6: a typed error or an import, and answers afterwards."""
    file = tmp_path / "in"
    origin.sync.admin.export_jsonl(file, **ALICE)
    whole = file.read_bytes()
    rng = random.Random(11)
    refused = 0
    other = open_service(tmp_path / "other.db", embedder=EMBEDDER)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 2)] = rng.choice(
                [b"", b'"', b"0", b"9", b"}", b"-", b"\xff", b"null", rng.randbytes(1)]
            )
        file.write_bytes(data)
        try:
            other.sync.admin.import_jsonl(file, restore=True)
        except VecallError:
            refused += 1
        everything(other)
    assert refused > 20
    other.close()
    with open_service(tmp_path / "other.db", embedder=EMBEDDER) as again:
        everything(again)
        again.sync.admin.export_jsonl(tmp_path / "out")

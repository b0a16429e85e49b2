"""What is acknowledged is in the file, whole, whatever becomes of the process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from vecall import (
    ConfigError,
    CorruptFileError,
    IncompatibleFileError,
    MemoryEntry,
    MemoryService,
    StorageError,
    VecallError,
)

ALICE = {"app_name": "app", "user_id": "alice"}
KILLS = int(os.environ.get("VECALL_TEST_KILLS", "8"))


def texts(service: MemoryService, query: str, **options: Any) -> list[str]:
    found = service.sync.search_memory(**ALICE, query=query, top_k=1000, **options)
    return sorted(memory.text for memory in found.memories)


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes, killed at the end whatever happens."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


SERVER = """
import json, sys, vecall
service = vecall.MemoryService(sys.argv[1], warn_raw=False)
print("ready", flush=True)
for line in sys.stdin:
    name, arguments = json.loads(line)
    if name == "texts":
        found = service.sync.search_memory(**arguments, top_k=1000)
        answer = sorted(memory.text for memory in found.memories)
    else:
        answer = getattr(service.sync, name)(**arguments)
    print(json.dumps(answer), flush=True)
"""


def ask(process: subprocess.Popen[str], name: str, **arguments: Any) -> Any:
    tell(process, json.dumps([name, {**ALICE, **arguments}]))
    return json.loads(said(process))


WRITER = """
import itertools, os, sys, threading, vecall
path, start, durability = sys.argv[1], int(sys.argv[2]), sys.argv[3]
service = vecall.MemoryService(path, durability=durability)
print("ready", flush=True)

def work(user):
    scope = dict(app_name="app", user_id=f"user{user}")
    for number in itertools.count(start):
        size = number % 7 + 1
        ids = service.sync.add_memory(
            **scope, memories=[f"call{number} part{i} of{size}" for i in range(size)]
        )
        os.write(1, f"add {user} {number}\\n".encode())
        if number % 3 == 0:
            service.sync.delete_memory(**scope, memory_id=ids[0])
            os.write(1, f"delete {user} {number}\\n".encode())

for user in range(3):
    threading.Thread(target=work, args=(user,), daemon=True).start()
sys.stdin.read()
"""


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    open_service, tmp_path
):
    """Guarantees 1 and 2: kill -9 loses nothing acknowledged and tears no call."""
    path = tmp_path / "m.db"
    rng = random.Random(9)
    for kill in range(KILLS):
        start = kill * 100_000
        durability = ("full", "process")[kill % 2]
        acknowledged = []
        with child(WRITER, path, start, durability) as process:
            assert said(process) == "ready"
            for _ in range(rng.randint(1, 61)):
                acknowledged.append(said(process))
            process.send_signal(signal.SIGKILL)
            assert process.stdout is not None
            acknowledged += process.stdout.read().split("\n")
        whole = [line.split() for line in acknowledged if len(line.split()) == 3]
        added = {(int(user), int(n)) for verb, user, n in whole if verb == "add"}
        deleted = {(int(user), int(n)) for verb, user, n in whole if verb == "delete"}
        service = open_service(path)
        for user in range(3):
            calls = calls_of_user(service, user, start, added)
            unacknowledged = 0
            for number, parts in calls.items():
                size = min(number % 7 + 1, 5)
                everything = number % 7 + 1
                if (user, number) in deleted:
                    assert len(parts) == min(everything - 1, 5), "a deletion was lost"
                elif (user, number) in added:
                    assert len(parts) >= min(everything - (number % 3 == 0), 5)
                else:
                    unacknowledged += bool(parts)
                    assert len(parts) in {0, size}, "a torn call"
            assert unacknowledged <= 1
        service.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def calls_of_user(
    service: MemoryService, user: int, start: int, added: set[tuple[int, int]]
) -> dict[int, list[int]]:
    mine = [number for who, number in added if who == user]
    last = max(mine, default=start - 1)
    assert sorted(mine) == list(range(start, last + 1)), "acknowledged out of order"
    scope = {"app_name": "app", "user_id": f"user{user}"}
    found = {}
    for number in range(start, last + 3):
        answer = service.sync.search_memory(**scope, query=f"call{number}")
        found[number] = [
            int(memory.text.split()[1][4:])
            for memory in answer.memories
            if memory.text.split()[0] == f"call{number}"
        ]
    return found


def test_a_process_that_forgets_to_close_loses_nothing(open_service, tmp_path):
    """Guarantee 1: the exit of the process is no different from its death."""
    path = tmp_path / "m.db"
    script = """
import sys, vecall
service = vecall.MemoryService(sys.argv[1])
service.sync.add_memory(app_name="app", user_id="alice", memories=["zebra"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], timeout=30, check=False
    )
    assert done.returncode == 0
    assert texts(open_service(path), "zebra") == ["zebra"]


def test_everything_is_the_same_after_reopening(open_service, tmp_path):
    """S2.6: entries, ids, order and scores."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_session_to_memory(
        {
            **ALICE,
            "id": "s",
            "events": [
                {"id": f"e{i}", "author": "user", "timestamp": i * 1e5, "text": text}
                for i, text in enumerate(
                    ["zebra okapi", "yes", "zebra", "no", "quagga"]
                )
            ],
        }
    )
    service.sync.add_memory(
        **ALICE,
        memories=[
            MemoryEntry(
                {"parts": [{"text": "zebra"}, {"text": "\u00e9\U0001f99c"}]},
                id="x",
                custom_metadata={"a": [1, {"b": None}]},
                importance=0.9,
            )
        ],
    )
    queries = ["zebra", "okapi zebra", "quagga 1970", "user"]
    before = [service.sync.search_memory(**ALICE, query=query) for query in queries]
    got = service.sync.get_memory(**ALICE, memory_id="x")
    service.close()
    service = open_service(path)
    after = [service.sync.search_memory(**ALICE, query=query) for query in queries]
    assert after == before
    assert service.sync.get_memory(**ALICE, memory_id="x") == got


def test_two_processes_see_each_others_writes_at_once(open_service, tmp_path):
    """Guarantee 4: what one acknowledged, the next search in the other finds.

    Adds, changes and deletions, in both directions, without a pause.
    """
    path = tmp_path / "m.db"
    service = open_service(path)
    with child(SERVER, path) as other:
        assert said(other) == "ready"
        expected: list[str] = []
        for i in range(20):
            (id_,) = service.sync.add_memory(**ALICE, memories=[f"zebra here{i}"])
            assert f"zebra here{i}" in ask(other, "texts", query="zebra")
            (there,) = ask(other, "add_memory", memories=[f"zebra there{i}"])
            expected += [f"zebra here{i}", f"zebra there{i}"]
            assert texts(service, "zebra") == sorted(expected)
            entry = {"content": f"zebra changed{i}", "id": id_}
            ask(other, "add_memory", memories=[entry])
            expected[-2] = f"zebra changed{i}"
            assert texts(service, "zebra") == sorted(expected)
            assert texts(service, f"here{i}") == []
            if i % 3 == 0:
                service.sync.delete_memory(**ALICE, memory_id=there)
                expected.remove(f"zebra there{i}")
            assert ask(other, "texts", query="zebra") == sorted(expected)
        assert service.sync.stats()["memories"] == len(expected)


def test_two_services_of_one_process_see_each_others_writes(open_service, tmp_path):
    """Guarantee 4, and closing one drops no lock of the other (finding 1)."""
    path = tmp_path / "m.db"
    first, second = open_service(path), open_service(str(path))
    for i in range(10):
        first.sync.add_memory(**ALICE, memories=[f"zebra one{i}"])
        second.sync.add_memory(**ALICE, memories=[f"zebra two{i}"])
        assert len(texts(first, "zebra")) == len(texts(second, "zebra")) == 2 * i + 2
    second.close()
    with child(SERVER, path) as other:
        assert said(other) == "ready"
        ask(other, "add_memory", memories=["zebra three"])
        first.sync.add_memory(**ALICE, memories=["zebra four"])
        assert len(ask(other, "texts", query="zebra")) == 22
    assert len(texts(first, "zebra")) == 22


def test_processes_may_make_one_new_file_at_the_same_time(open_service, tmp_path):
    """Opening, journal mode and migration race with no one."""
    script = """
import sys
import vecall
print("ready", flush=True)
sys.stdin.readline()
for number in range(15):
    with vecall.MemoryService(f"{sys.argv[1]}/{number}.db") as service:
        service.sync.add_memory(app_name="app", user_id="alice", memories=[sys.argv[2]])
print("done", flush=True)
"""
    with ExitStack() as stack:
        running = [
            stack.enter_context(child(script, tmp_path, f"zebra {i}")) for i in range(4)
        ]
        for process in running:
            assert said(process) == "ready"
        for process in running:
            tell(process, "go")
        assert [said(process) for process in running] == ["done"] * 4
    for number in range(15):
        assert len(texts(open_service(tmp_path / f"{number}.db"), "zebra")) == 4


HOLDER = """
import fcntl, os, sys
file = os.open(sys.argv[1] + ".lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
fcntl.lockf(file, fcntl.LOCK_UN)
print("free", flush=True)
sys.stdin.readline()
"""


def commits_in(log: Path) -> int:
    """The transactions in a write-ahead log, read by another process.

    Frames are a header of 24 bytes and a page; the fifth to eighth byte of the header
    are not zero where a transaction ends.
    """
    script = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    data = subprocess.run(
        [sys.executable, "-c", script, str(log)], capture_output=True, check=True
    ).stdout
    page = struct.unpack(">I", data[8:12])[0]
    salt = data[16:24]
    commits = 0
    for at in range(32, len(data) - page, 24 + page):
        if data[at + 8 : at + 16] == salt:
            commits += struct.unpack(">I", data[at + 4 : at + 8])[0] != 0
    return commits


def test_writes_that_wait_together_share_one_sync(open_service, tmp_path):
    """A hundred writes that queued up behind the gate are a few transactions."""
    path = tmp_path / "m.db"
    service = open_service(path)

    async def work() -> None:
        with child(HOLDER, path) as holder:
            assert said(holder) == "held"
            adds = [
                asyncio.ensure_future(
                    service.add_memory(**ALICE, memories=[f"zebra {i}"])
                )
                for i in range(100)
            ]
            await asyncio.sleep(0)  # each ran up to its first wait: it is queued
            before = commits_in(path.with_name("m.db-wal"))
            tell(holder, "go")
            assert said(holder) == "free"
            ids = await asyncio.gather(*adds)
            after = commits_in(path.with_name("m.db-wal"))
            assert len({id_ for (id_,) in ids}) == 100
            assert 1 <= after - before <= 5

    asyncio.run(work())
    assert len(texts(service, "zebra")) == 100


def test_an_empty_file_is_migrated_to_the_newest_schema(open_service, tmp_path):
    path = tmp_path / "m.db"
    path.touch()
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    connection = sqlite3.connect(path)
    tables = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
    }
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert tables >= set("meta model part mem vec_next chg tomb hist idem trig".split())
    assert texts(open_service(path), "zebra") == ["zebra"]


def test_only_the_owner_may_read_a_new_file(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    for part in tmp_path.iterdir():
        assert part.stat().st_mode & 0o777 == 0o600, part.name


def test_a_file_of_a_newer_version_is_refused_with_both_numbers(open_service, tmp_path):
    """contracts.md, schema: refused before anything is changed."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError, match=r"99.*\b1\b"):
        open_service(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 5])
def test_the_file_of_another_program_is_refused_and_unchanged(
    open_service, tmp_path, version
):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mem (text TEXT)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError, match="another program"):
        open_service(path)
    assert path.read_bytes() == before
    assert [part.name for part in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.parametrize("size", [1, 99, 100, 4096, 10_007])
def test_a_text_file_is_refused_and_unchanged(open_service, tmp_path, size):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"zebra text " * (size // 11 + 1))
    before = path.read_bytes()
    with pytest.raises(IncompatibleFileError):
        open_service(path)
    assert path.read_bytes() == before


def test_a_folder_is_refused(open_service, tmp_path):
    with pytest.raises(ConfigError, match="folder"):
        open_service(tmp_path)


def test_a_missing_folder_is_refused_and_not_made(open_service, tmp_path):
    with pytest.raises(ConfigError, match="folder"):
        open_service(tmp_path / "missing" / "m.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_storage_error(open_service, tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError):
            open_service(tmp_path / "m.db")
    finally:
        tmp_path.chmod(0o700)


def test_a_path_object_named_memory_is_memory(open_service, tmp_path, monkeypatch):
    """No file of that name appears, and the service works."""
    monkeypatch.chdir(tmp_path)
    service = open_service(Path(":memory:"))
    service.sync.add_memory(**ALICE, memories=["zebra"])
    assert texts(service, "zebra") == ["zebra"]
    assert list(tmp_path.iterdir()) == []


def flip(path: Path, marker: bytes) -> None:
    """Change one byte of a marker wherever it is stored."""
    data = bytearray(path.read_bytes())
    assert marker in data
    at = -1
    while (at := data.find(marker, at + 1)) >= 0:
        data[at + len(marker) // 2] ^= 0x01
    path.write_bytes(data)


def spoiled(
    open_service: Any, path: Path, marker: bytes, **entry: Any
) -> MemoryService:
    service = open_service(path)
    service.sync.add_memory(
        **ALICE, memories=[MemoryEntry(**{"content": "zebra", "id": "x", **entry})]
    )
    service.close()
    flip(path, marker)
    return open_service(path)


FLIPS = [
    ("text", {"content": "zebra flipmarker"}),
    ("author", {"author": "flipmarker"}),
    ("parts", {"content": {"parts": [{"text": "zebra"}, {"text": "flipmarker"}]}}),
    ("metadata", {"custom_metadata": {"key": "flipmarker"}}),
    ("session", {"session_id": "flipmarker"}),
    ("trust", {"trust": "flipmarker"}),
]


@pytest.mark.parametrize(
    "entry", [entry for _, entry in FLIPS], ids=[name for name, _ in FLIPS]
)
def test_a_flipped_byte_is_noticed_by_a_search(open_service, tmp_path, entry):
    """Guarantee 6, bug class 1: never silently wrong."""
    service = spoiled(open_service, tmp_path / "m.db", b"flipmarker", **entry)
    with pytest.raises(CorruptFileError) as caught:
        service.sync.search_memory(**ALICE, query="zebra")
    assert "marker" not in str(caught.value)


@pytest.mark.parametrize(
    "entry", [entry for _, entry in FLIPS], ids=[name for name, _ in FLIPS]
)
def test_a_flipped_byte_is_noticed_by_a_get(open_service, tmp_path, entry):
    """Guarantee 6: whichever way a memory is read."""
    service = spoiled(open_service, tmp_path / "m.db", b"flipmarker", **entry)
    with pytest.raises(CorruptFileError):
        service.sync.get_memory(**ALICE, memory_id="x")


def test_a_flipped_byte_of_a_vector_is_noticed(open_service, tmp_path):
    """For database pages: an error, never a wrong vector."""
    path = tmp_path / "m.db"
    vector = [1.5, -2.25, 3.125, 7.0]

    def embed(texts: list[str]) -> list[list[float]]:
        return [vector for _ in texts]

    service = open_service(path, embedder=embed)
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    flip(path, struct.pack("<4f", *vector))
    service = open_service(path, embedder=embed)
    with pytest.raises(CorruptFileError):
        service.sync.search_memory(**ALICE, query="zebra")


def test_one_damaged_memory_harms_no_other_user(open_service, tmp_path):
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(
        app_name="app", user_id="bob", memories=["zebra flipmarker"]
    )
    service.sync.add_memory(**ALICE, memories=["zebra"])
    service.close()
    flip(path, b"flipmarker")
    service = open_service(path)
    assert texts(service, "zebra") == ["zebra"]
    service.sync.add_memory(**ALICE, memories=["zebra two"])
    assert texts(service, "zebra") == ["zebra", "zebra two"]


def test_any_damage_is_a_typed_error(open_service, tmp_path):
    """Pages of garbage and cut files: CorruptFileError and its like, no raw sqlite3."""
    path = tmp_path / "m.db"
    service = open_service(path)
    service.sync.add_memory(
        **ALICE, memories=[f"zebra {i} " + "x" * 700 for i in range(40)]
    )
    service.close()
    whole = path.read_bytes()
    rng = random.Random(5)
    noticed = 0
    for round_ in range(25):
        damaged = tmp_path / f"{round_}.db"
        data = bytearray(whole)
        if round_ % 5 == 0:
            del data[rng.randrange(100, len(data)) :]
        else:
            at = rng.randrange(100, len(data) - 600)
            data[at : at + 600] = rng.randbytes(600)
        damaged.write_bytes(data)
        try:
            with MemoryService(damaged) as opened:
                found = texts(opened, "zebra")
                assert all(text in whole.decode("latin-1") for text in found)
        except VecallError:
            noticed += 1
    assert noticed > 5  # the rest fell on bytes that say nothing


def test_a_full_disk_writes_nothing_and_can_be_got_over(open_service, tmp_path):
    """Bug class 28: StorageFullError or StorageError, and later writes go through."""
    path = tmp_path / "m.db"
    script = """
import resource, signal, sys, vecall
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1])
size, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
done = 0
try:
    for i in range(1000):
        service.sync.add_memory(**scope, memories=[f"zebra {i} " + "x" * 5000])
        done += 1
except vecall.StorageError:
    pass
except vecall.StorageFullError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
service.sync.add_memory(**scope, memories=["zebra later"])
found = service.sync.search_memory(**scope, query="zebra", top_k=1000).memories
print(done, len(found), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    acknowledged, found = map(int, done.stdout.split())
    assert 5 < acknowledged < 1000
    assert found == acknowledged + 1
    assert len(texts(open_service(path), "zebra")) == found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_hang_and_harms_nothing(open_service, tmp_path):
    """contracts.md, threads: after fork, a child opens anew. Bug class 13."""
    path = tmp_path / "m.db"
    script = """
import os, sys, vecall
scope = dict(app_name="app", user_id="alice")
service = vecall.MemoryService(sys.argv[1])
service.sync.add_memory(**scope, memories=["zebra parent"])
service.sync.search_memory(**scope, query="zebra")
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(4, exit=True)
    try:
        service.sync.add_memory(**scope, memories=["zebra child"])
        found = service.sync.search_memory(**scope, query="zebra").memories
        os._exit(0 if len(found) == 2 else 3)
    except vecall.VecallError:
        os._exit(0)
    finally:
        os._exit(4)
_, status = os.waitpid(child, 0)
service.sync.add_memory(**scope, memories=["zebra again"])
print(os.waitstatus_to_exitcode(status), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0", "the child hung or got a wrong answer"
    assert {"zebra parent", "zebra again"} <= set(texts(open_service(path), "zebra"))


def test_the_change_log_does_not_grow_for_ever(open_service, tmp_path):
    """Bug class 25: the log is pruned in the transaction that writes it."""
    path = tmp_path / "m.db"
    service = open_service(path, durability="process")

    for i in range(20):
        entries = [MemoryEntry(f"zebra {i}", id=str(j)) for j in range(251)]
        service.sync.add_memory(**ALICE, memories=entries)
    service.close()
    connection = sqlite3.connect(path)
    (changes,) = connection.execute("SELECT count(*) FROM chg").fetchone()
    connection.close()
    assert changes < 20 * 251

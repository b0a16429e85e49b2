"""After a purge the file proves no text: no digest of it that anybody can make."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b, md5, sha1, sha256
from pathlib import Path
from typing import Any

import pytest
from helpers.clocks import SettableClock
from helpers.lifecycle import bytes_with, kept
from helpers.memories import ALICE
from vecall import ConflictError, MemoryService, StorageOptions
from vecall.store import AddMemories, make_memory_id
from vecall.store.file.database import Database
from vecall.store.rows import Draft, digest_of_draft, hash_of_text

PIN = "my PIN is 493817"
TOLD = {"author": "user", "text": PIN, "timestamp": 5.0}
SESSION = {**ALICE, "id": "s", "events": [TOLD]}


def digests() -> Iterator[bytes]:
    """What somebody who guesses the text, and all about it, can calculate of it."""
    yield hash_of_text(PIN)
    yield bytes.fromhex(digest_of_draft(Draft("x", PIN)))
    yield bytes.fromhex(
        digest_of_draft(
            Draft("x", PIN, session="s", author="user", ts=5.0, ordered=True)
        )
    )
    for session in ("s", None):
        for author in ("user", None):
            for time in (5.0, None):
                yield bytes.fromhex(make_memory_id(session, author, time, PIN))
    for text in (PIN, f"user: {PIN}"):
        for algorithm in (md5, sha1, sha256):
            yield algorithm(text.encode()).digest()
        for size in (8, 12, 16, 32, 64):
            yield blake2b(text.encode(), digest_size=size).digest()


def traces(folder: Path) -> list[bytes]:
    """Which of them some file has, as bytes or in some spelling."""
    data = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    data = re.sub(b"\0{64,}", bytes(64), data)  # the reserve: megabytes of zeros
    return [
        digest
        for digest in digests()
        for form in (
            digest,
            digest[:8],  # a part of it proves as much
            digest.hex()[:16].encode(),
            b64encode(digest)[:12],
            urlsafe_b64encode(digest)[:12],
        )
        if form in data
    ]


def turn(service: MemoryService) -> str:
    (id_,) = service.sync.add_session_to_memory(SESSION)
    return id_


def fact(service: MemoryService) -> str:
    (id_,) = service.sync.add_memory(**ALICE, memories=[PIN], idempotency_key="k")
    return id_


def superseded(service: MemoryService) -> str:
    """A fact that another one names, which stays."""
    id_ = fact(service)
    newer = {"content": "it is another one now", "id": "newer", "supersedes": id_}
    service.sync.add_memory(**ALICE, memories=[newer])
    return id_


def folded(service: MemoryService) -> str:
    """A fact whose successor is gone, and that is known by its id."""
    id_ = fact(service)
    entry = {"content": "older", "id": "older"}
    service.sync.add_memory(**ALICE, memories=[entry])
    entry = {"content": PIN, "id": id_, "supersedes": "older"}
    service.sync.add_memory(**ALICE, memories=[entry])
    return id_


def observed(service: MemoryService) -> str:
    service.sync.observe_session(SESSION)
    (id_,) = service.sync.end_session(**ALICE, session_id="s")
    return id_


MADE = {each.__name__: each for each in (turn, fact, superseded, folded, observed)}


@pytest.mark.parametrize("more", ["another memory", "none"])
@pytest.mark.parametrize("name", MADE)
def test_no_digest_of_a_deleted_text_is_left_after_a_purge(
    open_service, tmp_path, name, more
):
    folder = tmp_path / "data"
    folder.mkdir()
    service = open_service(
        folder / "m.db", trigger="session_end", maintenance_interval=None
    )
    if more == "another memory":
        service.sync.add_memory(**ALICE, memories=["something else"])
    id_ = MADE[name](service)
    service.sync.propose_forget(**ALICE, query="PIN")
    service.sync.delete_memory(**ALICE, memory_id=id_)
    service.sync.admin.purge()
    service.close()
    assert bytes_with(folder, [PIN, id_]) == set()
    assert traces(folder) == []
    service = open_service(
        folder / "m.db", trigger="session_end", maintenance_interval=None
    )
    before = kept(service)
    told = service.sync.add_memory(**ALICE, memories=[PIN], restore=False)
    assert told.stored == ([] if name in ("fact", "superseded", "folded") else told)
    if name in ("turn", "observed"):
        service.sync.delete_memory(**ALICE, memory_id=told[0])
        service.sync.observe_session(SESSION)
        service.sync.end_session(SESSION)
        assert service.sync.add_session_to_memory(SESSION).stored == []
    assert kept(service) == before


def test_digests_are_found_where_they_are(open_service, tmp_path):
    """The reference of these tests: before the purge the file proves the text."""
    service = open_service(tmp_path / "m.db")
    service.sync.delete_memory(**ALICE, memory_id=turn(service))
    service.close()
    assert traces(tmp_path)


def test_a_memory_that_superseded_what_is_gone_stays_whole(open_service, tmp_path):
    path = tmp_path / "m.db"
    first, second = open_service(path), open_service(path)
    id_ = superseded(first)
    found = second.sync.search_memory(**ALICE, query="another").memories
    assert [memory.supersedes for memory in found] == [id_]
    first.sync.delete_memory(**ALICE, memory_id=id_)
    first.sync.admin.purge()
    for service in (first, second):
        (memory,) = service.sync.search_memory(**ALICE, query="another").memories
        assert (memory.id, memory.supersedes) == ("newer", None)
    # What is gone can still be named by who tells the same again.
    again: dict[str, Any] = {
        "content": "it is another one now",
        "id": "newer",
        "supersedes": id_,
    }
    assert first.sync.add_memory(**ALICE, memories=[again]) == ["newer"]
    assert first.sync.get_memory(**ALICE, memory_id="newer").supersedes == id_


def test_what_a_summary_took_in_comes_back_after_the_summary_was_purged(tmp_path):
    """The summary lived its time; what it stands for names it by its hidden id."""
    clock = SettableClock()
    path = tmp_path / "m.db"
    with MemoryService(
        path,
        embedder=None,
        storage=StorageOptions(clock=clock, maintenance_interval=None),
    ) as service:
        service.sync.add_memory(**ALICE, memories=[{"content": "older", "id": "o"}])
        summary = Draft("summary", "a summary", ttl=60.0)
        job = AddMemories(*ALICE.values(), [summary], fold={"o": hash_of_text("older")})
        with (
            closing(Database(path, "full", clock=clock)) as database,
            database.write_transaction() as connection,
        ):
            job.run(connection)
        assert kept(service, "archived") == {"o": "older"}
        clock.let_pass(61)
        service.sync.admin.run_due()
        service.sync.admin.purge()
        past = service.sync.memory_history(**ALICE, memory_id="o")
        assert [(each.why, each.by) for each in past] == [("folded", None)]
        assert bytes_with(tmp_path, ["summary"]) == set()
        service.sync.restore_memory(**ALICE, memory_id="summary")
        assert kept(service) == {"o": "older"}


def test_a_purge_leaves_the_count_of_deleted_ids_as_it_was(tmp_path):
    """The key of the digests is no deleted id."""
    with MemoryService(tmp_path / "m.db", embedder=None) as service:
        service.sync.add_memory(**ALICE, memories=["one", "two", "three"])
        (one, two, _) = kept(service)
        for id_ in (one, two):
            service.sync.delete_memory(**ALICE, memory_id=id_)
        for _ in range(2):
            assert service.sync.admin.stats()["deleted_ids"] == 2
            service.sync.admin.purge()
        assert service.sync.admin.stats()["deleted_ids"] == 2


@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_a_key_is_not_good_for_other_memories_after_a_purge(open_service, deleted):
    """Ids say what the first call was about where a purge dropped its digest."""
    service = open_service()
    first = ["tea is green", "bread is brown"]
    sync, key = service.sync, {"idempotency_key": "k"}
    ids = sync.add_memory(**ALICE, memories=first, **key)
    for id_ in ids[:deleted]:
        sync.delete_memory(**ALICE, memory_id=id_)
    sync.admin.purge()
    before = kept(service)
    others = ["jam"], first[:1], [*first, "jam"], [*first[1:], "jam"]
    for memories in others:
        with pytest.raises(ConflictError, match="idempotency_key"):
            sync.add_memory(**ALICE, memories=memories, **key)
    assert list(sync.add_memory(**ALICE, memories=first, **key)) == list(ids)
    assert kept(service) == before


def test_a_call_that_left_out_what_was_gone_is_known_after_a_purge(open_service):
    service = open_service()
    sync, key = service.sync, {"idempotency_key": "k"}
    (gone,) = sync.add_memory(**ALICE, memories=["jam"])
    sync.delete_memory(**ALICE, memory_id=gone)
    told = {**ALICE, "memories": ["tea", "jam"], "restore": False, **key}
    first = sync.add_memory(**told)
    assert first[1] is None
    sync.admin.purge()
    assert list(sync.add_memory(**told)) == list(first)

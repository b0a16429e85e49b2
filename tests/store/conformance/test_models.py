"""The embedding model, vectors that are missing, and a migration to another model."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.storage_contents import APP, add, state_of, texts_of, write
from helpers.storage_model import vector_of
from vecall.errors import ConflictError, EmbeddingMismatchError
from vecall.store import (
    AddMemories,
    DeleteMemories,
    Draft,
    DraftLookup,
    EmbeddingModel,
    ExistingMemories,
    MoveVectors,
    PutNextVectors,
    SetVectors,
    Storage,
    SwitchModels,
    hash_of_text,
)

OLD, NEW = EmbeddingModel("old", 4), EmbeddingModel("new", 2)


def new_vector(text: str) -> bytes:
    """What stands for the vector of the new model."""
    return vector_of(text)[:8]


def add_embedded(storage: Storage, user: str, model: int, *ids: str) -> Any:
    made = [Draft(id_, f"says {id_}", vec=vector_of(f"says {id_}")) for id_ in ids]
    return write(storage, AddMemories(APP, user, made, model))


def embed(storage: Storage, model: int, most: int) -> int:
    """Prepare some vectors as a migration does; return how many rows there were."""
    with storage.read() as reads:
        reads.require_migrating(model)
        rows, cursor = reads.to_be_embedded(most)
    if not rows and cursor is None:
        return 0
    assert len(rows) <= most
    vectors = [new_vector(entry.row.text) for entry in rows]
    write(storage, PutNextVectors(model, rows, vectors, cursor))
    return max(1, len(rows))


def switch(storage: Storage, model: EmbeddingModel) -> bool:
    job = SwitchModels(model)
    write(storage, job)
    return job.done


def test_the_first_model_is_adopted_and_another_is_refused(storage: Storage) -> None:
    with storage.read() as reads:
        assert reads.active_model() is None
        assert not reads.has_memories()
    first = storage.adopt_model(OLD)
    assert first.id
    assert first._replace(id=0) == OLD
    assert storage.adopt_model(OLD) == first
    for other in (EmbeddingModel("old", 5), EmbeddingModel("other", 4)):
        with pytest.raises(EmbeddingMismatchError):
            storage.adopt_model(other)
    with storage.read() as reads:
        assert reads.active_model() == first


def test_vectors_of_a_model_that_is_not_active_are_refused(storage: Storage) -> None:
    model = storage.adopt_model(OLD)
    with pytest.raises(EmbeddingMismatchError):
        add_embedded(storage, "a", model.id + 1, "1")
    assert storage.version(APP, "a") is None


def test_rows_without_a_vector_are_listed_and_given_theirs(storage: Storage) -> None:
    add(storage, "a", "1", "2", "3")
    add(storage, "b", "1")
    model = storage.adopt_model(OLD)
    add_embedded(storage, "a", model.id, "4")
    with storage.read() as reads:
        rows = reads.without_vector(0, 10)
        assert reads.without_vector(rows[1].row.rid, 1) == rows[2:3]
    assert [entry.row.id for entry in rows] == ["1", "2", "3", "1"]
    write(storage, AddMemories(APP, "a", [Draft("1", "other")]))  # since it was read
    some = [entry for entry in rows if entry.row.rid >> 32 == rows[0].row.rid >> 32]
    vectors = [vector_of(entry.row.text) for entry in some]
    write(storage, SetVectors(APP, "a", some, vectors, model.id))
    found = {e.row.id: e.vec for e in state_of(storage, "a").live.values()}
    says = {id_: vector_of(f"says {id_}") for id_ in ("2", "3", "4")}
    assert found == {"1": None, **says}
    with storage.read() as reads:
        assert len(reads.without_vector(0, 10)) == 2


def looked_up(
    storage: Storage,
    user: str,
    drafts: list[Draft],
    model: int,
    *,
    key: str | None = None,
    likely: str | None,
) -> ExistingMemories | None:
    """Look up drafts; `likely` is the user whose partition is expected."""
    version = None if likely is None else storage.version(APP, likely)
    part = None if version is None else version[0]
    ids = [draft.id for draft in drafts]
    texts = [(draft.hash, draft.author) for draft in drafts]
    asked = DraftLookup(APP, user, ids, texts, model, key, part)
    return storage.lookup_existing(asked)


@pytest.mark.parametrize("likely", [None, "a", "b"])
def test_what_is_known_of_memories_is_looked_up_before_they_are_added(
    storage: Storage, likely: str | None
) -> None:
    model = storage.adopt_model(OLD)
    add_embedded(storage, "a", model.id, "1", "2", "gone")
    write(storage, DeleteMemories(APP, "a", ["gone"]))
    drafts = [
        Draft("1", "says 1"),  # as it is
        Draft("2", "other"),  # another text
        Draft("3", "says 1"),  # the text of another memory
        Draft("gone", "says gone"),
    ]
    add_embedded(storage, "b", model.id, "other")
    known = looked_up(storage, "a", drafts, model.id, likely=likely)
    others = looked_up(storage, "b", drafts, model.id, likely=likely)
    assert known is not None
    assert others is not None
    needed = [d.id for d in drafts if known.needs_vector(d, restore=False, again=False)]
    assert needed == ["2", "3"]
    assert known.deleted == {"gone"}
    assert known.vectors == {(hash_of_text("says 1"), None): vector_of("says 1")}
    assert (others.texts, others.deleted, others.vectors) == ({}, set(), {})
    parts = {"a": known.part, "b": others.part}
    for user, part in parts.items():
        version = storage.version(APP, user)
        assert version is not None
        assert version[0] == part


@pytest.mark.parametrize("likely", [None, "a", "b"])
def test_a_used_idempotency_key_ends_the_look_up(
    storage: Storage, likely: str | None
) -> None:
    model = storage.adopt_model(OLD).id
    for user in "ab":
        add_embedded(storage, user, model, "1")
    write(storage, AddMemories(APP, "a", [Draft("gone", "x")], key="call"))
    drafts = [Draft("2", "says 2")]
    calls = [("a", "call", True), ("a", "other", False), ("b", "call", False)]
    for purged in (False, True):
        if purged:  # keys stay known by digests
            write(storage, DeleteMemories(APP, "a", ["gone"]))
            storage.maintenance.purge()
        for user, key, used in calls:
            known = looked_up(storage, user, drafts, model, key=key, likely=likely)
            assert (known is None) == used


@pytest.mark.parametrize("likely", [None, "a", "b"])
def test_an_expected_partition_does_not_change_what_an_add_finds(
    storage: Storage, likely: str | None
) -> None:
    """Also if it is the partition of another user, who has the same ids."""
    write(storage, AddMemories(APP, "b", [Draft("1", "of b"), Draft("gone", "of b")]))
    write(storage, DeleteMemories(APP, "b", ["gone"]))
    version = None if likely is None else storage.version(APP, likely)
    for ids in (["1", "gone"], ["1", "2"]):
        drafts = [Draft(id_, f"of a {id_}") for id_ in ids]
        part = None if version is None else version[0]
        job = AddMemories(APP, "a", drafts, likely_part=part)
        write(storage, job)
        assert job.left_out == {}
        if likely == "a":
            version = storage.version(APP, "a")
    assert texts_of(storage, "a") == {id_: f"of a {id_}" for id_ in ("1", "2", "gone")}
    assert texts_of(storage, "b") == {"1": "of b"}


def test_a_migration_embeds_everything_and_changes_nothing_else(
    storage: Storage,
) -> None:
    old = storage.adopt_model(OLD)
    ids = [f"{n}" for n in range(7)]
    add_embedded(storage, "a", old.id, *ids)
    add_embedded(storage, "b", old.id, "1")
    texts = texts_of(storage, "a")
    assert storage.begin_migration(OLD) is None  # it is the active one
    new = storage.begin_migration(NEW)
    assert new is not None
    assert storage.begin_migration(NEW) == new  # resumed
    assert embed(storage, new.id, 3) == 3
    assert not switch(storage, new)
    # Others go on writing: what they write is embedded, too.
    add_embedded(storage, "a", old.id, "late")
    write(storage, DeleteMemories(APP, "a", ["0"]))
    other = Draft("1", "other", vec=vector_of("other"))
    write(storage, AddMemories(APP, "a", [other], old.id))
    with storage.read() as reads:
        assert reads.active_model() == old
    while embed(storage, new.id, 3):
        pass
    before = state_of(storage, "a").version
    assert switch(storage, new)
    with storage.read() as reads:
        active = reads.active_model()
    assert active == new
    expected = {id_: text for id_, text in texts.items() if id_ != "0"}
    expected |= {"late": "says late", "1": "other"}
    for _ in range(20):
        state = state_of(storage, "a")
        assert state.version == before
        assert state.texts == expected
        assert {(e.vec, e.model) for e in state.live.values()} == {
            (new_vector(text), new.id) for text in expected.values()
        }
        with storage.read() as reads:
            if not reads.unmoved_vectors():
                break
        write(storage, MoveVectors())
    else:
        pytest.fail("the vectors are never moved")
    with pytest.raises(EmbeddingMismatchError):
        add_embedded(storage, "a", old.id, "too late")


def test_a_migration_that_another_one_replaced_is_refused(storage: Storage) -> None:
    old = storage.adopt_model(OLD)
    add_embedded(storage, "a", old.id, "1", "2")
    first = storage.begin_migration(NEW)
    assert first is not None
    embed(storage, first.id, 1)
    with storage.read() as reads:
        left, cursor = reads.to_be_embedded(10)
    second = storage.begin_migration(EmbeddingModel("third", 3))
    assert second is not None
    late = PutNextVectors(first.id, left, [bytes(8)] * len(left), cursor)
    write(storage, late)
    with storage.read() as reads:
        with pytest.raises(ConflictError):
            reads.require_migrating(first.id)
        reads.require_migrating(second.id)
        rows, _ = reads.to_be_embedded(10)
    assert len(rows) == 2  # nothing of the first one counts, nor what came late
    with pytest.raises(ConflictError):
        switch(storage, first)


def test_the_first_model_of_all_needs_no_migration(storage: Storage) -> None:
    add(storage, "a", "1")
    assert storage.begin_migration(NEW) is None
    with storage.read() as reads:
        model = reads.active_model()
    assert model is not None
    assert model._replace(id=0) == NEW

"""A user whom somebody makes while another looks for him."""

from __future__ import annotations

from helpers.memories import ALICE
from vecall.store import names


def test_a_user_made_between_two_looks_is_no_damage(
    open_service, tmp_path, monkeypatch
):
    """The two indexes are asked at one moment, or they may seem to disagree."""
    path = tmp_path / "m.db"
    writer, reader = open_service(path), open_service(path)
    look = names.require_absent
    looks = []

    def late(connection, app, user):
        if not looks:
            looks.append(user)
            writer.sync.add_memory(**ALICE, memories=["zebra"])
        look(connection, app, user)

    monkeypatch.setattr(names, "require_absent", late)
    first = reader.sync.search_memory(**ALICE, query="zebra").memories
    assert looks == [ALICE["user_id"]]
    assert first == []  # as it was when the search began
    assert len(reader.sync.search_memory(**ALICE, query="zebra").memories) == 1

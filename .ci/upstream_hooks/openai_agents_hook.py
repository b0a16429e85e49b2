"""A pytest plugin that puts VecallSession in the place of SQLiteSession."""

# ruff: noqa: D107 -- the other class documents these methods

from __future__ import annotations

from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session
from unsupported import expect_failures
from vecall import MemoryService
from vecall.openai_agents import VecallSession

CONNECTIONS = "inspects the connections of SQLiteSession"
TABLES = "writes to the tables of SQLiteSession by SQL"
OWNER = "the session does not own the memory service, so it has no close"
_NAMED = "test_sqlite_session_"
UNSUPPORTED = {
    _NAMED + name: reason
    for reason, names in {
        CONNECTIONS: (
            "close_closes_worker_thread_connections",
            "reaps_connections_from_exited_worker_threads",
            "closes_retired_connections_before_the_next_allocation",
            "keeps_connections_of_live_worker_threads",
            "file_lock_is_shared_across_instances",
            "rollback_failure_evicts_connection",
            "close_retries_quarantined_connection",
            "post_commit_cancellation_propagates_after_known_outcome",
        ),
        TABLES: (
            "pop_item_skips_corrupt_most_recent",
            "pop_item_returns_none_after_dropping_only_corrupt_rows",
            "get_items_limit_skips_corrupt_newest_rows",
            "get_items_session_settings_limit_skips_corrupt_rows",
            "failed_add_items_releases_write_lock",
            "failed_clear_session_rolls_back",
            "failed_pop_item_releases_write_lock",
        ),
        OWNER: ("closed_rejects_empty_add_items",),
    }.items()
    for name in names
}
SERVICES: dict[str, MemoryService] = {}


class Session(VecallSession):
    """Sessions of one path share a file."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        *,
        session_settings: Any = None,
    ) -> None:
        path = ":memory:" if str(db_path) == ":memory:" else f"{db_path}.vecall"
        if path == ":memory:":
            memory = MemoryService(path, embedder=None)
        else:
            memory = SERVICES.get(path) or MemoryService(path, embedder=None)
            SERVICES[path] = memory
        super().__init__(
            session_id, memory, "tests", "tests", session_settings=session_settings
        )

    def close(self) -> None:
        """Leave the file open: the session does not own it."""


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = Session


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Expect failures where a test is about SQLiteSession itself."""
    of_sessions = [item for item in items if item.path.name == "test_session.py"]
    expect_failures(of_sessions, UNSUPPORTED)

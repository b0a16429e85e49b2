"""Every method of a memory service with arguments, and a file for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vecall import Filter, Inactivity, MemoryEntry, MemoryService
from vecall.hooks import ALLOW, QUARANTINE

from helpers.embedders import Recorder
from helpers.memories import ALICE

SESSION = {**ALICE, "id": "s", "events": [{"id": "e9", "text": "zebra new"}]}

# Each with arguments for which it would change something.
WRITING: dict[str, dict[str, Any]] = {
    "add_session_to_memory": {"session": SESSION},
    "add_events_to_memory": {**ALICE, "events": SESSION["events"]},
    "add_memory": {**ALICE, "memories": ["zebra new"]},
    "observe_session": {"session": SESSION},
    "end_session": {**ALICE, "session_id": "waiting"},
    "admin.run_due": {},
    "update_memory": {**ALICE, "memory_id": "f", "content": "zebra new"},
    "archive_memory": {**ALICE, "memory_id": "f"},
    "restore_memory": {**ALICE, "memory_id": "archived"},
    "release_memory": {**ALICE, "memory_id": "held"},
    "propose_forget": {**ALICE, "query": "zebra"},
    "confirm_forget": {**ALICE, "token": "token"},
    "consolidate": {**ALICE},
    "mark_used": {**ALICE, "memory_ids": ["f"]},
    "touch_memories": {**ALICE, "memory_ids": ["f"], "ttl": 90.0},
    "delete_memory": {**ALICE, "memory_id": "f"},
    "delete_memories": {**ALICE, "memory_ids": ["f", "f2"]},
    "delete_session": {**ALICE, "session_id": "s"},
    "delete_where": {**ALICE, "filter": Filter(kind="fact")},
    "delete_user": {**ALICE},
    "admin.delete_app": {"app_name": ALICE["app_name"], "confirm": True},
    "admin.purge": {},
    "admin.import_jsonl": {"path": "export"},
    "admin.reembed": {"embedder": Recorder()},
}
READING: dict[str, dict[str, Any]] = {
    "search_memory": {**ALICE, "query": "zebra"},
    "explain_memory": {**ALICE, "query": "zebra", "memory_id": "f"},
    "get_memory": {**ALICE, "memory_id": "f"},
    "get_memories": {**ALICE, "memory_ids": ["f", "absent"]},
    "expand_session": {**ALICE, "memory_id": "f"},
    "memory_history": {**ALICE, "memory_id": "f"},
    "list_memories": {**ALICE},
    "count_memories": {**ALICE},
    "list_sessions": {**ALICE},
    "conflicts": {**ALICE},
    "memory_figures": {**ALICE},
    "admin.warm": {**ALICE},
    "admin.stats": {},
    "admin.list_apps": {},
    "admin.list_users": {"app_name": ALICE["app_name"]},
    "admin.backup": {"path": "copy"},
    "admin.export_jsonl": {"path": "another"},
}


def corpus_in(
    folder: Path, open_service: Callable[..., MemoryService], **options: Any
) -> Path:
    """A file with something for every method to do, and its export."""
    path = folder / "m.db"
    service = open_service(
        path,
        trigger=Inactivity(1000),
        maintenance_interval=None,
        on_write=lambda write: QUARANTINE if write.memory.id == "held" else ALLOW,
        **options,
    )
    events = [{"id": f"e{n}", "text": f"zebra {n}", "timestamp": n} for n in range(3)]
    service.sync.add_session_to_memory({**ALICE, "id": "s", "events": events})
    facts = [
        MemoryEntry("zebra fact", id="f", kind="fact"),
        MemoryEntry("the zebra fact", id="f2", kind="fact"),
        MemoryEntry("zebra archived", id="archived"),
        MemoryEntry("zebra held", id="held"),
    ]
    service.sync.add_memory(**ALICE, memories=facts)
    service.sync.add_memory(
        **ALICE, memories=["zebra passing"], custom_metadata={"ttl": 50}
    )
    service.sync.archive_memory(**ALICE, memory_id="archived")
    service.sync.observe_session({**SESSION, "id": "waiting"})
    proposal = service.sync.propose_forget(**ALICE, query="zebra fact")
    assert len(proposal.memories) > 1
    WRITING["confirm_forget"]["token"] = proposal.token
    service.sync.admin.export_jsonl(folder / "export")
    service.close()
    return path


def with_paths(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "path" in options:
        return {**options, "path": folder / options["path"]}
    return options

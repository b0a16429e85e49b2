"""All operations of the server."""

from __future__ import annotations

from vecall.server import operations
from vecall.server.routing import Operation
from vecall.server.schemas import FLAG, NAME, STATE, page_size

_USER = "/apps/{app}/users/{user}"


def all_operations(most: int) -> list[Operation]:
    """Return them.

    Args:
        most: The largest page of memories.
    """
    return [
        Operation(
            id="ingestSession",
            method="PATCH",
            path=f"{_USER}/memory",
            summary="Remember the turns of a stored session.",
            access="write",
            handler=operations.ingest_session,
            body="Ingest",
            answer="Ids",
            errors=(404,),
        ),
        Operation(
            id="addMemories",
            method="POST",
            path=f"{_USER}/memories",
            summary="Remember what was learned or decided.",
            access="write",
            handler=operations.add_memories,
            body="AddMemories",
            status=201,
            answer="Ids",
            errors=(404, 409),
        ),
        Operation(
            id="addEvents",
            method="POST",
            path=f"{_USER}/events",
            summary="Remember turns of a conversation.",
            access="write",
            handler=operations.add_events,
            body="AddEvents",
            status=201,
            answer="Ids",
            errors=(409,),
        ),
        Operation(
            id="searchMemories",
            method="POST",
            path=f"{_USER}/memories/search",
            summary="Find what a user's past says about a query, best first.",
            access="read",
            handler=operations.search,
            body="Search",
            answer="Memories",
        ),
        Operation(
            id="listMemories",
            method="GET",
            path=f"{_USER}/memories",
            summary="List memories in the order in which they were made.",
            access="read",
            handler=operations.list_memories,
            query={"state": STATE, "after": NAME, "limit": page_size(most)},
            answer="Memories",
        ),
        Operation(
            id="deleteUser",
            method="DELETE",
            path=f"{_USER}/memories",
            summary="Delete all memories of a user.",
            access="write",
            handler=operations.delete_user,
            query={"forget": FLAG},
            answer="Deleted",
        ),
        Operation(
            id="getMemory",
            method="GET",
            path=f"{_USER}/memories/{{id}}",
            summary="Return one memory.",
            access="read",
            handler=operations.get_memory,
            answer="Memory",
            errors=(404,),
        ),
        Operation(
            id="deleteMemory",
            method="DELETE",
            path=f"{_USER}/memories/{{id}}",
            summary="Delete one memory.",
            access="write",
            handler=operations.delete_memory,
            status=204,
        ),
        Operation(
            id="deleteSession",
            method="DELETE",
            path=f"{_USER}/sessions/{{session}}",
            summary="Delete what was remembered of one session.",
            access="write",
            handler=operations.delete_session,
            answer="Deleted",
        ),
        Operation(
            id="exportUser",
            method="GET",
            path=f"{_USER}/export",
            summary="Stream all memories of a user as JSON lines.",
            access="read",
            handler=operations.export_user,
            query={"vectors": FLAG},
            answer="application/x-ndjson",
            timed=False,
        ),
        Operation(
            id="health",
            method="GET",
            path="/healthz",
            summary="Say that the server answers.",
            access="public",
            handler=operations.health,
            answer="Health",
        ),
        Operation(
            id="metrics",
            method="GET",
            path="/metrics",
            summary="Show counts in the text format of Prometheus.",
            access="admin",
            handler=operations.metrics,
            answer="text/plain",
        ),
        Operation(
            id="openapi",
            method="GET",
            path="/openapi.json",
            summary="Show this document.",
            access="public",
            handler=operations.document,
            answer="Document",
        ),
    ]

"""The calls of the random programs, by name: how often, and how one is made."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vecall import Drop, MemoryService, Put

if TYPE_CHECKING:
    from helpers.random_calls import Place, Program

Call = Callable[[MemoryService, "Place"], Any]


def _simple(method: str, make: Callable[[Program], dict[str, Any]]) -> Any:
    """A call of one method with arguments by name."""

    def made(program: Program) -> Call:
        arguments = {**program.owner(), **make(program)}
        return lambda service, _: getattr(service.sync, method)(**arguments)

    return made


def _item(method: str, make: Callable[[Program], tuple[Any, dict[str, Any]]]) -> Any:
    def made(program: Program) -> Call:
        first, arguments = make(program)
        named = {**program.owner(), **arguments}
        return lambda service, _: getattr(service.items.sync, method)(first, **named)

    return made


def _admin(method: str, make: Callable[[Program], dict[str, Any]]) -> Any:
    def made(program: Program) -> Call:
        arguments = make(program)
        return lambda service, _: getattr(service.admin.sync, method)(**arguments)

    return made


def _add(p: Program) -> dict[str, Any]:
    given: dict[str, Any] = {
        "memories": [p.entry() for _ in range(p.choose.randint(1, 3))],
        "scope": p.scope(),
    }
    if p.choose.random() < 0.1:
        given["idempotency_key"] = p.choice_of("k1", "k2", "k3")
    if p.choose.random() < 0.1:
        given["restore"] = p.choice_of(True, False)
    if p.choose.random() < 0.1:
        given["if_absent"] = True
    if p.choose.random() < 0.1:
        given["ttl"] = p.choice_of(30, "3600s", -1)
    if p.choose.random() < 0.1:
        given["custom_metadata"] = p.metadata()
    return given


def _session(p: Program) -> dict[str, Any]:
    return {**p.owner(), "id": p.choice_of("s1", "s2", "s3"), "events": p.events()}


def _add_session(p: Program) -> Call:
    session, replace = _session(p), p.choose.random() < 0.2
    restore = p.choose.random() < 0.1
    return lambda service, _: service.sync.add_session_to_memory(
        session, replace=replace, restore=restore
    )


def _observe(p: Program) -> Call:
    session = _session(p)
    return lambda service, _: service.sync.observe_session(session)


def _search(p: Program) -> dict[str, Any]:
    return {
        "query": p.text(),
        "top_k": p.choice_of(1, 3, 5, 10, None),
        "min_confidence": p.choice_of(None, None, 0.2),
        "filter": p.filter(),
        "explain": p.choice_of(True, False),
        "offset": p.choice_of(0, 0, 0, 2, 10),
    }


def _version_of(p: Program) -> Callable[[MemoryService, dict[str, str], str], Any]:
    """What `if_version` is: the memory's version, a wrong one or None."""
    kind = p.choice_of("none", "right", "wrong")

    def version(service: MemoryService, owner: dict[str, str], id_: str) -> Any:
        if kind == "none":
            return None
        if kind == "wrong":
            return 1.5
        (found,) = service.sync.get_memories(**owner, memory_ids=[id_])
        return None if found is None else found.version

    return version


def _update(p: Program) -> Call:
    owner, id_, version = p.owner(), p.choose.choice(p.ids), _version_of(p)
    changes = {
        name: value
        for name, value in {
            "content": p.text(),
            "kind": p.choice_of("fact", None),
            "importance": p.choice_of(0.5, None),
            "custom_metadata": p.metadata(),
            "timestamp": p.choice_of(None, 1.6e9),
            "valid_until": p.choice_of(None, p.clock.wall() + 500),
        }.items()
        if p.choose.random() < 0.4
    }
    tier = p.choice_of(None, None, "third-party-public")
    return lambda service, _: service.sync.update_memory(
        **owner, memory_id=id_, max_trust=tier,
        if_version=version(service, owner, id_), **changes,
    )  # fmt: skip


def _delete(p: Program) -> Call:
    owner, id_, version = p.owner(), p.choose.choice(p.ids), _version_of(p)
    return lambda service, _: service.sync.delete_memory(
        **owner, memory_id=id_, if_version=version(service, owner, id_)
    )


def _propose(p: Program) -> Call:
    owner, query = p.owner(), p.text()

    def propose(service: MemoryService, place: Place) -> Any:
        proposal = service.sync.propose_forget(**owner, query=query)
        if proposal.token:
            place.tokens.append(proposal.token)
        return [proposal.memories, proposal.expires_at, bool(proposal.token)]

    return propose


def _confirm(p: Program) -> Call:
    owner, query, is_late = p.owner(), p.text(), p.choose.random() < 0.3

    def confirm(service: MemoryService, place: Place) -> Any:
        token = service.sync.propose_forget(**owner, query=query).token or "none"
        if is_late and place.tokens:
            token = place.tokens[-1]
        return service.sync.confirm_forget(**owner, token=token)

    return confirm


def _restore(p: Program) -> Call:
    owner, pick, id_ = p.owner(), p.choose.random(), p.choose.choice(p.ids)

    def restore(service: MemoryService, _: Place) -> Any:
        away = service.sync.list_memories(**owner, state="archived")
        one = away[int(pick * len(away))].id if away else id_
        return service.sync.restore_memory(**owner, memory_id=one)

    return restore


def _release(p: Program) -> Call:
    owner, pick = p.owner(), p.choose.random()

    def release(service: MemoryService, _: Place) -> Any:
        held = service.sync.list_memories(**owner, state="quarantined")
        if not held:
            return None
        one = held[int(pick * len(held))]
        return service.sync.release_memory(
            **owner, memory_id=one.id, updated_at=one.updated_at
        )

    return release


def _pages(p: Program) -> Call:
    owner, filter_, limit = p.owner(), p.filter(), p.choice_of(3, 10, 100)
    state = p.choice_of("live", "live", "archived", "quarantined")
    expired = p.choice_of(True, False)

    def pages(service: MemoryService, _: Place) -> Any:
        found: list[Any] = []
        cursor = None
        while True:
            page = service.sync.list_memories(
                **owner, state=state, cursor=cursor, limit=limit, filter=filter_,
                include_expired=expired,
            )  # fmt: skip
            found += page
            if len(page) < limit:
                return found
            cursor = page[-1].id

    return pages


def _export(_: Program) -> Call:
    def export(service: MemoryService, _: Place) -> Any:
        target = io.StringIO()
        service.admin.sync.export_jsonl(target)
        lines = [json.loads(line) for line in target.getvalue().splitlines()]
        return sorted(json.dumps(line, sort_keys=True) for line in lines[1:])

    return export


def _totals(_: Program) -> Call:
    def totals(service: MemoryService, _: Place) -> Any:
        counts = service.admin.sync.stats()
        return {name: counts[name] for name in ("memories", "users") if name in counts}

    return totals


def _reopen(p: Program) -> Call:
    number = p.choose.randrange(2)

    def reopen(_: MemoryService, place: Place) -> None:
        if place.name != "memory":
            place.services[number].close()
            place.services[number] = place.open()

    return reopen


def _puts(p: Program) -> tuple[Any, dict[str, Any]]:
    made: list[Any] = []
    for _ in range(p.choose.randint(1, 4)):
        name, key = p.choose.choice(_NAMESPACES), f"k{p.choose.randrange(6)}"
        version = p.choice_of(*[None] * 12, 0, 7)
        if p.choose.random() < 0.2:
            made.append(Drop(name, key, version))
            continue
        value = p.choice_of(
            None,
            {"n": p.choose.randrange(5), "t": p.text()},
            [1, "x"],
            10**30,
            p.text(),
        )
        vectors = None
        if p.choose.random() < 0.4:
            vectors = [[p.choose.gauss(0, 1) for _ in range(4)]]
        made.append(Put(name, key, value, vectors, p.choice_of(None, 2_000), version))
    return made, {}


def _get(p: Program) -> Call:
    owner, refresh = p.owner(), p.choose.random() < 0.3
    keys = [(p.choose.choice(_NAMESPACES), f"k{n}") for n in range(3)]

    def get(service: MemoryService, _: Place) -> Any:
        found = service.items.sync.get(keys, refresh=refresh, **owner)
        if refresh:  # the call did not wait until that was written
            service.items.sync.write([Drop(("files",), "no such key")], **owner)
        return found

    return get


_NAMESPACES = (("notes",), ("notes", "old"), ("files",), ("notes 2",))
_WHERE = (None, {"n": {"$gte": 2}}, {"n": {"$exists": False}}, {"t": "parrot"})


def _space(p: Program) -> Any:
    return p.choose.choice([(), *_NAMESPACES])


CALLS: dict[str, tuple[float, Callable[[Program], Call]]] = {
    "add_memory": (12, _simple("add_memory", _add)),
    "add_events_to_memory": (
        5,
        _simple(
            "add_events_to_memory",
            lambda p: {"events": p.events(), "session_id": p.choice_of("s1", None)},
        ),
    ),
    "add_session_to_memory": (4, _add_session),
    "observe_session": (4, _observe),
    "end_session": (
        2,
        _simple("end_session", lambda p: {"session_id": p.choice_of("s1", "s2")}),
    ),
    "search_memory": (20, _simple("search_memory", _search)),
    "get_memory": (
        4, _simple("get_memory", lambda p: {"memory_id": p.choose.choice(p.ids)}),
    ),
    "get_memories": (
        4,
        _simple(
            "get_memories",
            lambda p: {"memory_ids": p.some_ids(), "scope": p.scope(),
                       "include_expired": p.choice_of(True, False)},
        ),
    ),
    "list_memories": (6, _pages),
    "count_memories": (
        5,
        _simple(
            "count_memories",
            lambda p: {"filter": p.filter(), "scope": p.scope(),
                       "state": p.choice_of("live", "archived")},
        ),
    ),
    "update_memory": (6, _update),
    "memory_history": (
        3, _simple("memory_history", lambda p: {"memory_id": p.choose.choice(p.ids)}),
    ),
    "expand_session": (
        3,
        _simple(
            "expand_session",
            lambda p: {"memory_id": p.choose.choice(p.ids), "turns_before": 1},
        ),
    ),
    "touch_memories": (
        3,
        _simple(
            "touch_memories",
            lambda p: {"memory_ids": p.some_ids(), "ttl": p.choice_of(None, 50, "2h")},
        ),
    ),
    "mark_used": (3, _simple("mark_used", lambda p: {"memory_ids": p.some_ids()})),
    "archive_memory": (
        3, _simple("archive_memory", lambda p: {"memory_id": p.choose.choice(p.ids)}),
    ),
    "restore_memory": (3, _restore),
    "release_memory": (2, _release),
    "delete_memory": (3, _delete),
    "delete_memories": (
        1, _simple("delete_memories", lambda p: {"memory_ids": p.some_ids()}),
    ),
    "delete_session": (
        1, _simple("delete_session", lambda p: {"session_id": p.choice_of("s1", "s3")}),
    ),
    "delete_where": (0.5, _simple("delete_where", lambda p: {"filter": p.filter()})),
    "delete_user": (
        0.3, _simple("delete_user", lambda p: {"forget": p.choose.random() < 0.2}),
    ),
    "propose_forget": (2, _propose),
    "confirm_forget": (2, _confirm),
    "list_sessions": (
        3,
        _simple(
            "list_sessions",
            lambda p: {"prefix": p.choice_of("", "s"), "scope": p.scope(),
                       "limit": p.choice_of(1, 2, 100)},
        ),
    ),
    "memory_figures": (
        1,
        _simple(
            "memory_figures", lambda p: {"state": p.choice_of("live", "archived")}
        ),
    ),
    "explain_memory": (
        2,
        _simple(
            "explain_memory", lambda p: {"query": "x", "memory_id": p.some_ids()[0]}
        ),
    ),
    "conflicts": (
        1,
        _simple(
            "conflicts",
            lambda p: {"limit": p.choice_of(1, 100), "scope": p.scope()},
        ),
    ),
    "consolidate": (
        2,
        _simple(
            "consolidate",
            lambda p: {"dry_run": p.choose.random() < 0.3,
                       "older_than": p.choice_of(None, None, "2000s"),
                       "similarity": p.choice_of(None, 0.9)},
        ),
    ),
    "admin.stats": (1, _totals),
    "admin.list_apps": (1, _admin("list_apps", lambda _: {})),
    "admin.list_users": (
        1, _admin("list_users", lambda p: {"app_name": p.choice_of("hotel", "bank")}),
    ),
    "admin.export_jsonl": (1, _export),
    "admin.run_due": (1, _admin("run_due", lambda _: {})),
    "reopen": (1, _reopen),
    "items.write": (8, _item("write", _puts)),
    "items.get": (4, _get),
    "items.find": (
        5,
        _item(
            "find",
            lambda p: (
                _space(p),
                {"where": p.choose.choice(_WHERE), "limit": p.choice_of(1, 10),
                 "vector": p.choice_of(None, [1.0, 0.5, -0.25, 0.0]),
                 "cursor": p.choice_of(None, "3", "0.5:9", "three")},
            ),
        ),
    ),
    "items.find_all": (
        2, _item("find_all", lambda p: (_space(p), {"where": p.choose.choice(_WHERE)})),
    ),
    "items.namespaces": (1, _item("namespaces", lambda p: (_space(p), {}))),
    "items.count": (
        2, _item("count", lambda p: (_space(p), {"where": p.choose.choice(_WHERE)})),
    ),
    "items.delete": (
        1, _item("delete", lambda p: (_space(p), {"where": p.choose.choice(_WHERE)})),
    ),
}  # fmt: skip

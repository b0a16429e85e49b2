"""Everything that a memory service can do, done once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vecall import Filter, Put

from helpers.embedders import Recorder, session
from helpers.memories import ALICE, BOB

Call = Callable[..., Any]


def walk(call: Call, folder: Any) -> list[tuple[str, dict[str, int]]]:
    """Do everything once; return the operations and what each has to count."""
    done: list[tuple[str, dict[str, int]]] = []

    def do(counted: str, name: str, *args: Any, **named: Any) -> Any:
        operation, *numbers = counted.split()
        done.append((operation, {numbers[1]: int(numbers[0])} if numbers else {}))
        return call(name, *args, **named)

    turns = [{"id": f"f{i}", "author": "guide", "text": f"lion {i}"} for i in range(4)]
    told, facts = session("zebra a", "zebra b", "zebra c"), ["zebra fact", "gnu fact"]
    do("add_session 3 written", "add_session_to_memory", told)
    do("add_events 4 written", "add_events_to_memory", **ALICE, events=turns)
    one, two = do("add_entries 2 written", "add_memory", **ALICE, memories=facts)
    do("add_entries 1 written", "add_memory", **BOB, memories=["zebra"])
    do("search 0 returned", "search_memory", **ALICE, query="?")
    found = do("search 3 returned", "search_memory", **ALICE, query="zebra b", top_k=3)
    do("get 1 returned", "get_memory", **ALICE, memory_id=one)
    do("get_many 1 returned", "get_memories", **ALICE, memory_ids=[two, "nobody"])
    middle = next(memory.id for memory in found.memories if memory.text == "zebra b")
    turn = {"memory_id": middle, "turns_before": 1, "turns_after": 0}
    do("expand_session 2 returned", "expand_session", **ALICE, **turn)
    do("touch 1 marked", "touch_memories", **ALICE, memory_ids=[one], ttl=1e6)
    do("mark_used 2 marked", "mark_used", **ALICE, memory_ids=[one, two, "nobody"])
    do("warm", "admin.warm", **ALICE)
    do("stats", "admin.stats")
    do("list_apps", "admin.list_apps")
    do("list_users", "admin.list_users", app_name="app")
    do("backup", "admin.backup", folder / "copy.db")
    do("export 10 exported", "admin.export_jsonl", folder / "all.jsonl")
    do("update", "update_memory", **ALICE, memory_id=two, content="gnu facts")
    do("history 2 returned", "memory_history", **ALICE, memory_id=two)
    do("list 9 returned", "list_memories", **ALICE)
    assert do("count", "count_memories", **ALICE) == 9
    do("list_sessions", "list_sessions", **ALICE)
    do("figures", "memory_figures", **ALICE)
    done += [("search", {"returned": n}) for n in (1, 9)]  # of the next one
    asked = {"query": "gnu", "memory_id": two, "top_k": 1}
    do("explain", "explain_memory", **ALICE, **asked)
    do("archive", "archive_memory", **ALICE, memory_id=two)
    do("restore 1 written", "restore_memory", **ALICE, memory_id=two)
    do("observe_session 0 written", "observe_session", session("lynx", id_="late"))
    do("end_session 1 written", "end_session", **ALICE, session_id="late")
    do("run_due 0 deleted", "admin.run_due")
    do("consolidate", "consolidate", **ALICE)
    do("conflicts", "conflicts", **ALICE)
    do("search 1 returned", "search_memory", **ALICE, query="lynx", top_k=1)
    proposal = call("propose_forget", **ALICE, query="lynx", top_k=1)
    done.append(("propose_forget", {}))
    do("confirm_forget 1 deleted", "confirm_forget", **ALICE, token=proposal.token)
    do("delete 1 deleted", "delete_memory", **ALICE, memory_id=one)
    do("delete 0 deleted", "delete_memory", **ALICE)
    new = do("add_entries 1 written", "add_memory", **ALICE, memories=["new"])
    do("delete_many 1 deleted", "delete_memories", **ALICE, memory_ids=[*new, "nobody"])
    do("delete_session 3 deleted", "delete_session", **ALICE, session_id="s")
    guides = Filter(author="guide")
    do("delete_where 4 deleted", "delete_where", **ALICE, filter=guides)
    puts = [Put(("notes",), key, {"n": n}) for n, key in enumerate("abc")]
    do("items_write 3 written", "items.write", puts, **ALICE)
    do("items_get 1 returned", "items.get", [(("notes",), "a")], **ALICE)
    do("items_find 2 returned", "items.find", where={"n": {"$gt": 0}}, **ALICE)
    do("items_namespaces 1 returned", "items.namespaces", **ALICE)
    do("items_count 3 returned", "items.count", **ALICE)
    do("items_delete 3 deleted", "items.delete", ("notes",), **ALICE)
    do("items_sweep 0 deleted", "items.sweep", **ALICE)
    do("delete_user 1 deleted", "delete_user", **ALICE)
    whole = {"app_name": "app", "confirm": True, "forget": True}
    do("delete_app 1 deleted", "admin.delete_app", **whole)
    done.append(("purge", {"freed": max(call("admin.purge"), 0)}))
    do("import 10 written", "admin.import_jsonl", folder / "all.jsonl", restore=True)
    do("reembed 10 embedded", "admin.reembed", Recorder(5, "other"))
    return done

"""Commands of two agents at the same time, in every order of their reads and writes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from helpers.schedule_explorer import every_schedule
from helpers.scheduler import Scheduler
from vecall import MemoryService

pytest.importorskip("anthropic.lib.tools")
from vecall.anthropic import FileError, Files

WHOSE = ("hotel", "alice")
MOST = 400  # schedules of two commands


class ScheduledItems:
    """Items before each use of which another command may go on."""

    def __init__(self, scheduler: Scheduler, inner: Any) -> None:
        self._scheduler = scheduler
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self._scheduler.point()
        self._scheduler.use("items", "r" if name in ("get", "find") else "w")
        return getattr(self._inner, name)(*arguments, **named)


class Command:
    """A command as the tool gives it."""

    def __init__(self, command: str, **fields: Any) -> None:
        self.command = command
        self.__dict__.update(fields)


def create(path: str) -> Command:
    return Command("create", path=f"/memories/{path}", file_text=f"as {path}")


def rename(old: str, new: str) -> Command:
    return Command("rename", old_path=f"/memories/{old}", new_path=f"/memories/{new}")


def delete(path: str) -> Command:
    return Command("delete", path=f"/memories/{path}")


def replace(path: str, old: str, new: str) -> Command:
    return Command("str_replace", path=f"/memories/{path}", old_str=old, new_str=new)


def insert(path: str, text: str) -> Command:
    return Command("insert", path=f"/memories/{path}", insert_line=0, insert_text=text)


PAIRS = {
    "a file and a directory of one name": (create("b"), create("b/c")),
    "two files of one name": (create("b"), create("b")),
    "a new file and a rename to its name": (create("b"), rename("a/x", "b")),
    "two renames to one name": (rename("a/x", "b"), rename("a/y", "b")),
    "two renames of one directory": (rename("a", "b"), rename("a", "c")),
    "a rename and an edit": (rename("a", "b"), replace("a/x", "as", "AS")),
    "a rename and an insertion": (rename("a/x", "b"), insert("a/x", "first")),
    "a rename and a deletion": (rename("a", "b"), delete("a/x")),
    "a deletion and an edit": (delete("a/x"), replace("a/x", "as", "AS")),
    "two edits": (replace("a/x", "as", "AS"), insert("a/x", "first")),
    "a file below a directory that is renamed": (create("a/z"), rename("a", "a/x/q")),
}


def told(files: Files, command: Command) -> str:
    try:
        return files.run_file_command(command)
    except FileError as error:
        return f"refused: {error}"


def tree(service: MemoryService) -> dict[tuple[str, ...], str]:
    found = service.items.sync.find((), app_name=WHOSE[0], user_id=WHOSE[1])
    return {
        (*item.namespace, item.key): item.value
        for item in found
        if isinstance(item.value, str)
    }


@pytest.mark.parametrize("name", PAIRS)
def test_commands_do_in_every_order_what_they_do_one_after_the_other(tmp_path, name):
    """So no file is lost, none is overwritten, and no edit is undone."""
    commands = PAIRS[name]

    def opened() -> MemoryService:
        service = MemoryService(":memory:", embedder=None)
        files = Files(service.sync.user(*WHOSE).items)
        for path in ("a/x", "a/y"):
            files.run_file_command(create(path))
        return service

    allowed = []
    for order in ((0, 1), (1, 0)):
        with opened() as service:
            files = Files(service.sync.user(*WHOSE).items)
            answers = {at: told(files, commands[at]) for at in order}
            allowed.append((answers, tree(service)))

    def run(scheduler: Scheduler) -> None:
        answers: dict[int, str] = {}
        with opened() as service:
            files = Files(ScheduledItems(scheduler, service.sync.user(*WHOSE).items))

            def work(at: int) -> None:
                answers[at] = told(files, commands[at])

            for at in range(2):
                scheduler.spawn(f"agent {at}", partial(work, at))
            scheduler.run()
            assert (answers, tree(service)) in allowed

    assert every_schedule(run, most=MOST).schedules > 1

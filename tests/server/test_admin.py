"""What an admin's token is for: counts, backups and deleting; never reading."""

from __future__ import annotations

import asyncio
import re

import pytest

pytest.importorskip("httptools")
pytest.importorskip("httpx")

from helpers.http import ALICE, Door, bearing, error_of
from vecall import ConfigError, MemoryService
from vecall.errors import BusyError, StorageFullError
from vecall.server import Tokens, create_app, mint

APP = "/admin/apps/hotel"


class Doors:
    """One app, and how each kind of token asks it."""

    def __init__(self, memory, **more):
        self.bearers, kept = {}, []
        for name, bound in {
            "user": {"app": "hotel"},
            "admin": {"admin": True},
            "looker": {"admin": True, "read_only": True},
        }.items():
            self.bearers[name], token = mint(**bound)
            kept.append(token)
        self.app = create_app(memory, tokens=Tokens(kept), **more)

    def ask(self, who, method, path, **more):
        headers = bearing(self.bearers[who])
        return Door(self.app, None).ask(method, path, headers=headers, **more)

    def add(self, *texts, user="alice", app="hotel"):
        path = f"/apps/{app}/users/{user}/memories"
        answer = self.ask("user", "POST", path, json={"memories": list(texts)})
        assert answer.status_code == 201


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "backups"
    made.mkdir()
    return made


@pytest.fixture
def memory(open_service, tmp_path):
    return open_service(tmp_path / "memory.db")


def test_a_backup_is_a_file_that_holds_everything(memory, folder):
    """Its name is the server's; it is nobody else's to read."""
    doors = Doors(memory, backups=folder)
    doors.add("Likes tea.")
    doors.add("Likes coffee.", user="bob")
    names = set()
    for _ in range(2):
        answer = doors.ask("admin", "POST", "/admin/backup")
        assert answer.status_code == 201
        told = answer.json()
        assert re.fullmatch(r"memory-\d{8}T\d{6}Z-[0-9a-f]{8}\.db", told["name"])
        made = folder / told["name"]
        assert made.stat().st_size == told["bytes"]
        assert made.stat().st_mode & 0o777 == 0o600
        names.add(told["name"])
        assert str(folder) not in answer.text
    assert {file.name for file in folder.iterdir()} == names
    with MemoryService(folder / names.pop(), embedder=None) as copy:
        assert copy.sync.admin.stats()["memories"] == 2


def test_the_client_does_not_say_where_a_backup_goes(memory, folder):
    """Neither by the query nor by a body."""
    doors = Doors(memory, backups=folder)
    for query in ("path=/tmp/x", "name=x", "folder=.."):
        answer = doors.ask("admin", "POST", f"/admin/backup?{query}")
        assert error_of(answer) == (422, "invalid")
    assert doors.ask("admin", "POST", "/admin/backup/x").status_code == 404
    body = {"path": "/tmp/x"}
    answer = doors.ask("admin", "POST", "/admin/backup", json=body)
    assert answer.status_code == 201
    assert (folder / answer.json()["name"]).is_file()
    assert len(list(folder.iterdir())) == 1


def test_without_a_folder_there_are_no_backups(memory, folder, tmp_path):
    """400; a folder that is not there is refused at the start, one that goes is 503."""
    answer = Doors(memory).ask("admin", "POST", "/admin/backup")
    assert error_of(answer) == (400, "not_configured")
    with pytest.raises(ConfigError, match="backups"):
        Doors(memory, backups=tmp_path / "nowhere")
    doors = Doors(memory, backups=folder)
    folder.rmdir()
    answer = doors.ask("admin", "POST", "/admin/backup")
    assert error_of(answer) == (503, "storage")
    assert str(tmp_path) not in answer.text


def test_one_backup_is_made_at_a_time(memory, folder, monkeypatch):
    """409 for the second, and the next one after the first is made."""
    doors = Doors(memory, backups=folder)
    doors.add("Likes tea.")
    real = memory.admin.backup
    door = Door(doors.app, doors.bearers["admin"])

    async def both():
        go, begun = asyncio.Event(), asyncio.Event()

        async def slow(path):
            if not begun.is_set():
                begun.set()
                await go.wait()
            await real(path)

        monkeypatch.setattr(memory.admin, "backup", slow)
        first = asyncio.ensure_future(door.ask_all([("POST", "/admin/backup", {})]))
        await begun.wait()
        (second,) = await door.ask_all([("POST", "/admin/backup", {})])
        go.set()
        return (await first)[0], second

    first, second = asyncio.run(both())
    assert first.status_code == 201
    assert error_of(second) == (409, "conflict")
    assert second.headers["retry-after"] == "1"
    assert doors.ask("admin", "POST", "/admin/backup").status_code == 201
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BusyError, (503, "busy")),
        (StorageFullError, (507, "storage_full")),
        (ConfigError, (503, "storage")),
        (RuntimeError, (500, "internal")),
    ],
)
def test_a_backup_that_fails_says_how_and_the_next_may_come(
    memory, folder, monkeypatch, error, expected
):
    """503 to come again, 507 where there is no room."""
    doors = Doors(memory, backups=folder)

    async def fail(_):
        raise error(str(folder))

    with monkeypatch.context() as patched:
        patched.setattr(memory.admin, "backup", fail)
        answer = doors.ask("admin", "POST", "/admin/backup")
    assert error_of(answer) == expected
    assert str(folder) not in answer.text
    assert doors.ask("admin", "POST", "/admin/backup").status_code == 201


def test_an_admin_deletes_an_app_and_no_other(memory):
    """All its users; the count is told, the second time it is 0."""
    doors = Doors(memory)
    doors.add("a", "b")
    doors.add("c", user="bob")
    memory.sync.add_memory(app_name="motel", user_id="alice", memories=["d"])
    answer = doors.ask("admin", "DELETE", f"{APP}?confirm=true")
    assert answer.json() == {"deleted": 3}
    again = doors.ask("admin", "DELETE", f"{APP}?confirm=true&forget=true")
    assert again.json() == {"deleted": 0}
    left = memory.sync.list_memories(app_name="motel", user_id="alice")
    assert len(left) == 1
    assert memory.sync.admin.stats()["memories"] == 1


def test_an_admin_deletes_a_user_and_no_other(memory):
    """With `forget` the turns may be told again."""
    doors = Doors(memory)
    event = {"events": [{"content": "Tea.", "id": "1"}], "session_id": "s"}
    doors.ask("user", "POST", f"{ALICE}/events", json=event)
    doors.add("c", user="bob")
    path = f"{APP}/users/alice?confirm=true"
    assert doors.ask("admin", "DELETE", path).json() == {"deleted": 1}
    doors.ask("user", "POST", f"{ALICE}/events", json=event)
    assert doors.ask("user", "GET", f"{ALICE}/memories").json() == {"memories": []}
    doors.ask("admin", "DELETE", f"{path}&forget=true")
    doors.ask("user", "POST", f"{ALICE}/events", json=event)
    told = doors.ask("user", "GET", f"{ALICE}/memories").json()
    assert len(told["memories"]) == 1
    assert memory.sync.admin.stats()["memories"] == 2


@pytest.mark.parametrize(
    "path",
    [
        APP,
        f"{APP}?confirm=false",
        f"{APP}?confirm=1",
        f"{APP}?confirm=",
        f"{APP}?confirm=true&confirm=true",
        f"{APP}/",
        f"{APP}/users/",
        f"{APP}/users/.?confirm=true",
        f"{APP}/users/..",
        "/admin/apps/?confirm=true",
        "/admin/apps?confirm=true",
        "/admin/apps/%ff?confirm=true",
        "/admin/apps/a%00b?confirm=true",
        f"/admin/apps/{'x' * 513}?confirm=true",
    ],
)
def test_an_app_is_not_deleted_by_accident(memory, path):
    """Not without `confirm=true`, nor by a path that lost its end."""
    doors = Doors(memory)
    doors.add("a")
    answer = doors.ask("admin", "DELETE", path)  # whose client resolves dots
    assert answer.status_code in (400, 404, 422)
    body = {"confirm": True}
    assert doors.ask("admin", "DELETE", APP, json=body).status_code == 422
    assert memory.sync.admin.stats()["memories"] == 1


def test_who_may_do_what_an_admin_may(memory, folder):
    """No token of an app or user; one that may only read makes backups, no more."""
    doors = Doors(memory, backups=folder)
    doors.add("a")
    asked = [
        ("GET", "/metrics"),
        ("POST", "/admin/backup"),
        ("DELETE", f"{APP}/users/alice?confirm=true"),
        ("DELETE", f"{APP}?confirm=true"),
    ]

    def statuses(who):
        return [doors.ask(who, method, path).status_code for method, path in asked]

    assert statuses("user") == [403, 403, 403, 403]
    assert statuses("looker") == [200, 201, 403, 403]
    assert memory.sync.admin.stats()["memories"] == 1
    assert statuses("admin") == [200, 201, 200, 200]
    assert memory.sync.admin.stats()["memories"] == 0


def test_there_is_no_route_for_configuration(memory):
    """Neither to read nor to change it."""
    doors = Doors(memory)
    for path in ("/admin", "/admin/", "/admin/config", "/config", "/admin/tokens"):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            assert doors.ask("admin", method, path).status_code == 404

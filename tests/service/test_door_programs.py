"""The programs for every door, on the service itself and on doors with a defect."""

from __future__ import annotations

import pytest
from helpers.door_programs import Door, DoorPrograms, RememberingPrograms
from vecall.types import Put


class ServiceDoor(Door):
    module = "vecall.tools"

    def open(self, home):
        self.user = home.memory.user(home.app, home.user)

    async def write(self, text):
        await self.user.add_events([{"text": text, "id": "same"}], session_id="s")

    async def read(self):
        return [(await self.user.search("zebra")).memories, await self.user.list()]

    async def clear(self):
        return await self.user.delete_all(forget=True)


class TestService(RememberingPrograms):
    door = ServiceDoor

    test_importing_vecall_does_not_import_the_framework = None


class BlockingDoor(ServiceDoor):
    """Its coroutines block the event loop."""

    async def write(self, text):
        self.home.memory.sync.add_memory(**self.home.who, memories=[text])


class JoiningDoor(Door):
    """It separates tenants by a prefix of a key."""

    module = "vecall.tools"
    scopes = ("a", "ab")

    def open(self, home):
        self.items = home.memory.user("app", "all").items
        self.prefix = home.app + home.user + home.scope

    async def write(self, text):
        await self.items.write([Put(("n",), self.prefix + text, text)])

    async def read(self):
        found = await self.items.find(("n",), limit=1_000)
        return [item.value for item in found if item.key.startswith(self.prefix)]


class RepeatingDoor(ServiceDoor):
    """It remembers what was recalled."""

    async def write(self, text):
        items = self.user.items
        if text.startswith("<recalled"):
            text = text.replace("<", "(")
        await items.write([Put(("n",), "same", text)])
        await self.user.add([text])


@pytest.mark.parametrize(
    ("broken", "program"),
    [
        (BlockingDoor, "test_the_event_loop_turns_while_a_write_waits"),
        (JoiningDoor, "test_a_tenant_never_reaches_another"),
        (RepeatingDoor, "test_recalled_text_is_not_remembered_again"),
    ],
)
def test_a_program_detects_its_defect(tmp_path, monkeypatch, broken, program):
    monkeypatch.setattr("helpers.door_programs._HELD_S", 0.3)
    programs = type("Programs", (RememberingPrograms,), {"door": broken})()
    with pytest.raises(AssertionError):
        getattr(programs, program)(tmp_path)


def test_a_blocking_call_on_the_event_loop_is_detected(tmp_path, monkeypatch):
    programs = type("Programs", (DoorPrograms,), {"door": BlockingDoor})()
    with pytest.raises(AssertionError, match=r"SyncMemoryService\.add_memory"):
        programs.test_no_call_blocks_the_event_loop(tmp_path, monkeypatch)

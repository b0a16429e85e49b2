"""`add_memory`, `update_memory` and `delete_memory`."""

from __future__ import annotations

import hmac
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from vecall.errors import InvalidArgumentError, InvalidTypeError
from vecall.mcp.base_tool import ID, TIME_FORMS, Desk, digest
from vecall.tools.base import Answer, MemoryTool, Schema
from vecall.tools.json_output import NOTE
from vecall.tools.remember import Remember
from vecall.tools.update import UpdateMemory as PlainUpdateMemory
from vecall.tools.writing import checked_text
from vecall.types import MemoryEntry


def _claims(desk: Desk) -> dict[str, Any]:
    access = desk.access
    return {"author": access.author, "trust": access.trust, "source": access.source}


class AddMemory(Remember):
    """The tool `add_memory(text, kind, importance, timestamp)`.

    A text that an answer of the same server showed is not stored again.
    """

    name = "add_memory"
    _properties: ClassVar[Schema] = {
        **Remember._properties,
        "timestamp": {
            "type": "string",
            "description": "When it was said, if not now, as for old notes: "
            f"{TIME_FORMS}",
        },
    }
    _times = ("timestamp",)

    def __init__(self, desk: Desk) -> None:
        """Bind the tool to one user."""
        super().__init__(desk.memory, **desk.owner, **_claims(desk))
        self._desk = desk

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], turn: Hashable, /
    ) -> dict[str, Any]:
        text = checked_text(given)
        known = self._desk.shown.id_of(text)
        if known is not None and await self._says(known, text):
            return {"status": "already_remembered", "id": known}
        return await super()._answer(memory, given, turn)

    async def _says(self, id_: str, text: str) -> bool:
        """Whether a memory still has the text with which it was shown."""
        try:
            entry = await self._desk.get(id_)
        except InvalidArgumentError:
            return False
        return digest((await self._desk.show(entry))["text"]) == digest(text)


class UpdateMemory(PlainUpdateMemory):
    """The tool `update_memory(id, text, importance)`."""

    _properties: ClassVar[Schema] = {**PlainUpdateMemory._properties, "id": ID}

    def __init__(self, desk: Desk) -> None:
        """Bind the tool to one user."""
        super().__init__(desk.memory, **desk.owner, **_claims(desk))
        self._desk = desk

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], turn: Hashable, /
    ) -> dict[str, Any]:
        await self._desk.get(given.get("id"))
        return await super()._answer(memory, given, turn)


class DeleteMemory(MemoryTool):
    """The tool `delete_memory(id, token)`, in two steps.

    The first call, without a token, deletes nothing. It answers `{"status": "confirm",
    "token": …, "memory": …}`. The second call has the token and deletes the memory. The
    token belongs to the id and the text, so a memory that changed in between is not
    deleted: the answer then has a new token. Both calls may go to different processes.

    The two steps keep a model from deleting a memory that it has not seen. They cannot
    make it ask the user; a client can, because the tool is marked as destructive.
    """

    name = "delete_memory"
    description = (
        "Delete one memory for ever, in two steps. First call it with the id alone: it "
        "deletes nothing and returns the memory and a token. Show the memory to the "
        "user, and only if the user agrees call it again with the id and the token."
    )
    _properties: ClassVar[Schema] = {
        "id": ID,
        "token": {
            "type": "string",
            "description": "The token of the first call, to confirm it",
        },
    }
    _required = ("id",)
    _without_memory: ClassVar[Answer] = {"status": "not_found"}
    _needs = ("get_memory", "delete_memory")

    def __init__(self, desk: Desk) -> None:
        """Bind the tool to one user."""
        super().__init__(desk.memory, **desk.owner)
        self._desk = desk

    async def _answer(
        self, memory: Any, given: Mapping[str, Any], _turn: Hashable, /
    ) -> dict[str, Any]:
        token = given.get("token")
        if token is not None and not isinstance(token, str):
            msg = "token: expected a string"
            raise InvalidTypeError(msg)
        entry = await self._desk.get(given.get("id"))
        expected = self._token(entry)
        if token is None or not hmac.compare_digest(
            token.encode(errors="surrogatepass"), expected.encode()
        ):
            return {
                "status": "confirm" if token is None else "unknown_token",
                "token": expected,
                "memory": await self._desk.show(entry),
                "note": NOTE,
            }
        was_there = await memory.delete_memory(**self._desk.owner, memory_id=entry.id)
        return {"status": "not_found" if was_there is False else "deleted"}

    def _token(self, entry: MemoryEntry) -> str:
        parts = [self.app_name, self.user_id, str(entry.id), entry.text]
        return digest("".join(f"{len(part)}:{part}" for part in parts)).hex()

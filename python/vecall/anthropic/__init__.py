"""Anthropic's memory tool over a vecall file. Needs vecall[anthropic]."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
except ImportError as error:
    msg = 'vecall.anthropic needs anthropic 2.12: pip install "vecall[anthropic]"'
    raise ImportError(msg) from error

from vecall.anthropic.files import FileError, Files
from vecall.errors import VecallError
from vecall.service.memory_service import MemoryService
from vecall.validation import checked_owner

__all__ = ["AsyncVecallMemoryTool", "VecallMemoryTool"]


class VecallMemoryTool(BetaAbstractMemoryTool):  # type: ignore[misc]
    """The tool `memory_20250818`: files of one (app, user) in a vecall file.

    Each command is one transaction. A path cannot leave the memories of its user.

    Args:
        memory: A service, or the path of a file, which this object opens.
        app_name: The app. Name app and user in code, never by a model.
        user_id: The user.
        cache_control: As in Anthropic's SDK.

    Raises:
        InvalidArgumentError: An invalid name; no file is opened.
    """

    def __init__(
        self,
        memory: MemoryService | str | Path,
        *,
        app_name: str,
        user_id: str,
        cache_control: Any = None,
    ) -> None:
        """Open the file, if a path is given."""
        super().__init__(cache_control=cache_control)
        self._owned: MemoryService | None = None
        if isinstance(memory, MemoryService):
            service = memory
            service.user(app_name, user_id)  # checks the names
        else:
            checked_owner(app_name, user_id)
            service = self._owned = MemoryService(memory, embedder=None)
        self._files = Files(service.items.sync, app_name, user_id)

    def close(self) -> None:
        """Close the file, if this object opened it."""
        if self._owned is not None:
            self._owned.sync.close()

    def view(self, command: Any) -> str:
        """Return the lines of a file, or the files of a directory."""
        return _run(self._files, command)

    def create(self, command: Any) -> str:
        """Write a new file."""
        return _run(self._files, command)

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once in a file."""
        return _run(self._files, command)

    def insert(self, command: Any) -> str:
        """Insert a text after a line of a file."""
        return _run(self._files, command)

    def delete(self, command: Any) -> str:
        """Delete a file, or a directory with all files below it."""
        return _run(self._files, command)

    def rename(self, command: Any) -> str:
        """Rename a file or a directory."""
        return _run(self._files, command)

    def clear_all_memory(self) -> str:
        """Delete all files of the user."""
        return self._files.clear()


class AsyncVecallMemoryTool(BetaAsyncAbstractMemoryTool):  # type: ignore[misc]
    """As `VecallMemoryTool`, for `AsyncAnthropic`.

    Args:
        memory: As in `VecallMemoryTool`.
        app_name: As in `VecallMemoryTool`.
        user_id: As in `VecallMemoryTool`.
        cache_control: As in `VecallMemoryTool`.

    Raises:
        InvalidArgumentError: As in `VecallMemoryTool`.
    """

    def __init__(
        self,
        memory: MemoryService | str | Path,
        *,
        app_name: str,
        user_id: str,
        cache_control: Any = None,
    ) -> None:
        """Open the file, if a path is given."""
        super().__init__(cache_control=cache_control)
        self._tool = VecallMemoryTool(memory, app_name=app_name, user_id=user_id)

    async def aclose(self) -> None:
        """Close the file, if this object opened it."""
        await asyncio.to_thread(self._tool.close)

    async def view(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: Any) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> str:
        """As in `VecallMemoryTool`."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


def _run(files: Files, command: Any) -> str:
    """Run a command; raise its failures as the errors that the model sees."""
    try:
        return files.run(command)
    except FileError as error:
        raise ToolError(str(error)) from None
    except VecallError as error:
        msg = f"The memory cannot do that: {error}"
        raise ToolError(msg) from error

"""A pytest plugin that puts vecall's memory tools in the place of Anthropic's.

The upstream tests read and write files below a folder. So the files of the folder are
copied to the tool before a command, and back after it.
"""

# ruff: noqa: D102, D107 -- the other classes document these methods

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anthropic.lib.tools._beta_builtin_memory_tool as module
from anthropic.types.beta import BetaMemoryTool20250818CreateCommand as Create
from anyio import Path as AsyncPath
from unsupported import expect_failures
from vecall import Limits, MemoryService
from vecall.anthropic import _FILES, AsyncVecallMemoryTool, Files, VecallMemoryTool

LINKS = "there are no symbolic links in a memory service"
_LINK = "test_symlink_validation_reject_"
UNSUPPORTED = {
    "test_mkdir_parents_not_world_writable_under_permissive_umask": (
        "calls a private function that makes folders"
    ),
    "test_validate_path_returns_resolved_path_not_symlink_target": LINKS,
    "test_read_rejects_symlink_created_after_validation": LINKS,
    "test_read_rejects_file_replaced_with_symlink_before_open": LINKS,
    "test_view_rejects_directory_symlink_created_after_validation": LINKS,
    "test_view_lists_symlinks_only_when_they_stay_inside_memories": LINKS,
    f"{_LINK}symlink_pointing_outside_memories": LINKS,
    f"{_LINK}creating_files_through_symlink_pointing_outside": LINKS,
    f"{_LINK}parent_directory_that_is_symlink_pointing_outside": LINKS,
}
COMMANDS = "view create str_replace insert delete rename".split()


class Folder:
    """A folder, and the same files in a memory service."""

    def __init__(self, base: str | Path) -> None:
        self.root = Path(base) / "memories"
        self.root.mkdir(parents=True, exist_ok=True)
        limits = Limits(max_item_bytes=8 << 20)  # a file of a million lines
        self.memory = MemoryService(":memory:", embedder=None, limits=limits)
        self._files = Files(self.memory.sync.items, "tests", "tests")

    def load(self) -> None:
        self._files.delete_all_files()
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                name = f"/memories/{path.relative_to(self.root)}"
                text = path.read_bytes().decode()
                self._files.run_file_command(
                    Create(command="create", path=name, file_text=text)
                )

    def save(self) -> None:
        shutil.rmtree(self.root)
        self.root.mkdir()
        for item in self._files._files_below(()):
            path = self.root.joinpath(*item.namespace[len(_FILES) :], item.key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(item.value.encode())


class Tool(VecallMemoryTool):
    """In the place of BetaLocalFilesystemMemoryTool."""

    def __init__(self, base_path: str | Path = "./memory") -> None:
        self.base_path = Path(base_path)
        self.folder = Folder(base_path)
        self.memory_root = self.folder.root
        super().__init__(self.folder.memory, app_name="tests", user_id="tests")


class AsyncTool(AsyncVecallMemoryTool):
    """In the place of BetaAsyncLocalFilesystemMemoryTool."""

    def __init__(self, base_path: str | Path = "./memory") -> None:
        self.base_path = AsyncPath(base_path)
        self.folder = Folder(base_path)
        self.memory_root = AsyncPath(self.folder.root)
        super().__init__(self.folder.memory, app_name="tests", user_id="tests")


def copying(name: str) -> Any:
    def run(self: Any, command: Any) -> str:
        self.folder.load()
        try:
            return getattr(VecallMemoryTool, name)(self, command)
        finally:
            self.folder.save()

    return run


def copying_async(name: str) -> Any:
    async def run(self: Any, command: Any) -> str:
        self.folder.load()
        try:
            return await getattr(AsyncVecallMemoryTool, name)(self, command)
        finally:
            self.folder.save()

    return run


for each in COMMANDS:
    setattr(Tool, each, copying(each))
    setattr(AsyncTool, each, copying_async(each))
module.BetaLocalFilesystemMemoryTool = Tool
module.BetaAsyncLocalFilesystemMemoryTool = AsyncTool


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Expect failures where a test is about the disk."""
    expect_failures(items, UNSUPPORTED)

"""Anthropic's memory tool over a vecall file. Needs vecall[anthropic]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vecall.concurrency.join import on_thread
from vecall.errors import VecallError, needs_extra
from vecall.item_collections import opened, retry_conflicts
from vecall.service._user_items_sync import SyncUserItems
from vecall.service.memory_service import MemoryService
from vecall.types import Drop, Item, Put

with needs_extra(__name__, "anthropic 2.12", "anthropic"):
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )

__all__ = ["AsyncVecallMemoryTool", "VecallMemoryTool"]


# Text files in directories, as items: a directory is a namespace, a file is an item.
#
# A directory exists as long as there is a file below it. The answers are those that
# Anthropic's own implementation of the tool gives, because models know them.

ROOT = "/memories"
_FILES = ("anthropic", "files")  # and the names of the directories
_TREE = ("anthropic", "tree")  # one item that each change of the tree writes
_MOST_LINES = 999_999
_WIDTH = len(str(_MOST_LINES))
_LEVELS = 2  # of directories that a view shows
_MOST_FILES = 4_000  # that one command reads; two operations each for a rename
_MOST_BYTES = 1_048_576  # of a file; commands read and change it on the caller's thread
_FIELDS = {  # of a command; all but two are texts
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_MOST_NAMED = 100  # lines that a message names
_LONGEST_NAMED = 2_000  # characters of a text that a message repeats
_ATTEMPTS = 50  # of a command that meets another one


class FileError(Exception):
    """A command that cannot be done; the message is for the model."""


def _check_file_text(text: str) -> None:
    try:
        size = len(text) if len(text) > _MOST_BYTES else len(text.encode())
    except UnicodeEncodeError:  # the SDK could not send it back
        raise FileError("A file must not have a lone surrogate.") from None
    if size > _MOST_BYTES:
        raise FileError(f"A file has at most {_MOST_BYTES} bytes.")


class Files:
    """The files of one (app, user)."""

    def __init__(self, items: SyncUserItems) -> None:
        """Use the items of a user."""
        self._items = items
        self._commands: dict[str, Callable[..., str]] = {
            "view": self._view_path,
            "create": self._create_file,
            "str_replace": self._replace_text,
            "insert": self._insert_text,
            "delete": self._delete_path,
            "rename": self._rename_path,
        }

    def run_file_command(self, command: Any) -> str:
        """Run a command of the tool and return its answer."""
        name = command.command
        if name not in _FIELDS:
            raise FileError("Unknown command.")
        _check_file_command_fields(command)
        given = [getattr(command, field) for field in _FIELDS[name]]
        return retry_conflicts(partial(self._commands[name], *given), _ATTEMPTS)

    def delete_all_files(self) -> str:
        """Delete all files."""
        self._items.delete(_FILES)
        return "All memory cleared"

    def _view_path(self, path: str, lines: Sequence[int] | None) -> str:
        names = _names_in_path(path)
        file = self._read_file(names) if names else None
        if file is not None:
            return _numbered_file_text(path, file.value, lines)
        found = self._files_below(names)
        if names and not found:
            msg = f"The path {path} does not exist. Please provide a valid path."
            raise FileError(msg)
        return _directory_listing(path, len(_FILES) + len(names), found)

    def _create_file(self, path: str, text: str) -> str:
        names = _names_in_path(path)
        tree = self._file_tree_version()
        if not names or self._path_exists(names):
            raise FileError(f"File {path} already exists")
        self._require_directories(names, path)
        _check_file_text(text)
        self._change_tree([Put(_folder_of(names), names[-1], text, if_version=0)], tree)
        return f"File created successfully at: {path}"

    def _replace_text(self, path: str, old: str, new: str) -> str:
        file = self._existing_file(path)
        text: str = file.value
        count = text.count(old) if old else 0
        if not count:
            raise FileError(
                f"No replacement was performed, old_str `{_shortened_text(old)}` did "
                f"not appear verbatim in {path}."
            )
        at = text.find(old)
        if count > 1:
            raise FileError(
                "No replacement was performed. Multiple occurrences of old_str "
                f"`{_shortened_text(old)}` in lines: {_line_numbers_of(text, old)}. "
                "Please ensure it is unique"
            )
        changed = text.replace(old, new)
        self._write_file(file, changed)
        line = text.count("\n", 0, at)
        first = max(0, line - 2)
        shown = _number_file_lines(changed.split("\n")[first : line + 3], first + 1)
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{shown}"
        )

    def _insert_text(self, path: str, line: int, text: str) -> str:
        file = self._existing_file(path)
        lines = file.value.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= line <= len(lines):
            raise FileError(
                f"Invalid `insert_line` parameter: {line}. It should be within the "
                f"range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        changed = "\n".join(lines)
        self._write_file(file, changed if changed.endswith("\n") else changed + "\n")
        return f"The file {path} has been edited."

    def _delete_path(self, path: str) -> str:
        names = _names_in_path(path)
        if not names:
            raise FileError("Cannot delete the /memories directory itself")
        tree = self._file_tree_version()
        found = self._files_at_path(names, path)
        self._change_tree([Drop(item.namespace, item.key) for item in found], tree)
        return f"Successfully deleted {path}"

    def _rename_path(self, old_path: str, new_path: str) -> str:
        old, new = _names_in_path(old_path), _names_in_path(new_path)
        if not old:
            raise FileError("Cannot rename the /memories directory itself")
        tree = self._file_tree_version()
        if not new or self._path_exists(new):
            raise FileError(f"The destination {new_path} already exists")
        found = self._files_at_path(old, old_path)
        if new[: len(old)] == old:
            raise FileError(f"The destination {new_path} is below {old_path}")
        self._require_directories(new, new_path)
        operations: list[Put | Drop] = []
        for item in found:
            names = [*item.namespace[len(_FILES) :], item.key]
            moved = [*new, *names[len(old) :]]
            # An edit since then is moved too, by another attempt.
            operations.append(Drop(item.namespace, item.key, if_version=item.version))
            operations.append(Put(_folder_of(moved), moved[-1], item.value))
        self._change_tree(operations, tree)
        return f"Successfully renamed {old_path} to {new_path}"

    def _write_file(self, file: Item, text: str) -> None:
        _check_file_text(text)
        put = Put(file.namespace, file.key, text, if_version=file.version)
        self._items.write([put])

    def _change_tree(self, operations: Sequence[Put | Drop], tree: int) -> None:
        """Change the tree, if nobody else has changed it since `tree` was read."""
        guard = Put(_TREE, "tree", None, if_version=tree)
        self._items.write([guard, *operations])

    def _file_tree_version(self) -> int:
        (item,) = self._items.get([(_TREE, "tree")])
        return 0 if item is None else item.version

    def _read_file(self, names: Sequence[str]) -> Item | None:
        (item,) = self._items.get([(_folder_of(names), names[-1])])
        return item

    def _files_below(self, names: Sequence[str]) -> list[Item]:
        found = self._items.find((*_FILES, *names), limit=_MOST_FILES + 1)
        if len(found) > _MOST_FILES:
            raise FileError(f"There are more than {_MOST_FILES} files; name one below.")
        return found

    def _path_exists(self, names: Sequence[str]) -> bool:
        if self._read_file(names) is not None:
            return True
        return bool(self._items.find((*_FILES, *names), limit=1))

    def _existing_file(self, path: str) -> Item:
        names = _names_in_path(path)
        file = self._read_file(names) if names else None
        if file is not None:
            return file
        if not names or self._path_exists(names):
            msg = f"The path {path} is not a file."
        else:
            msg = f"The path {path} does not exist. Please provide a valid path."
        raise FileError(msg)

    def _files_at_path(self, names: Sequence[str], path: str) -> list[Item]:
        """Return a file, or all files below a directory."""
        file = self._read_file(names)
        found = [file] if file is not None else self._files_below(names)
        if not found:
            raise FileError(f"The path {path} does not exist")
        return found

    def _require_directories(self, names: Sequence[str], path: str) -> None:
        """Refuse a path below a file."""
        above = [names[:count] for count in range(1, len(names))]
        places = [(_folder_of(each), each[-1]) for each in above]
        if any(item is not None for item in self._items.get(places)):
            raise FileError(f"A part of the path {path} is a file, not a directory")


def _check_file_command_fields(command: Any) -> None:
    """Check the types of a command's fields, which the SDK takes from the model."""
    for name in _FIELDS[command.command]:
        given, kind = getattr(command, name, None), "a string"
        is_valid = isinstance(given, str)
        if name == "insert_line":
            is_valid, kind = _is_file_line(given), "an integer"
        if name == "view_range":
            is_list = isinstance(given, list | tuple) and all(map(_is_file_line, given))
            is_valid, kind = given is None or is_list, "a list of two integers"
        if not is_valid:
            raise FileError(f"Invalid `{name}` parameter. It should be {kind}.")


def _line_numbers_of(text: str, old: str) -> str:
    """Return the numbers of the first lines in which a text occurs."""
    numbers: list[str] = []
    line, counted = 1, 0
    at = text.find(old)
    while at >= 0 and len(numbers) < _MOST_NAMED:
        line += text.count("\n", counted, at)
        counted = at
        numbers.append(str(line))
        at = text.find(old, at + 1)
    return ", ".join([*numbers, "..."] if at >= 0 else numbers)


def _shortened_text(text: str) -> str:
    """Return a text as a message repeats it, cut if it is long."""
    return text if len(text) <= _LONGEST_NAMED else text[:_LONGEST_NAMED] + "..."


def _is_file_line(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names_in_path(path: str) -> list[str]:
    """Return the names of a path below the root."""
    first, *names = path.removeprefix("/").split("/")
    if not path.startswith("/") or "/" + first != ROOT:
        raise FileError(f"Path must start with /memories, got: {path}")
    found: list[str] = []
    for name in names:
        if name == ".." and not found:
            raise FileError(f"Path {path} would escape /memories directory")
        if name == "..":
            found.pop()
        elif name not in ("", "."):
            found.append(name)
    return found


def _folder_of(names: Sequence[str]) -> tuple[str, ...]:
    return (*_FILES, *names[:-1])


def _numbered_file_text(path: str, text: str, lines: Sequence[int] | None) -> str:
    shown = text.split("\n")
    if len(shown) > _MOST_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first = 1
    if lines and len(lines) == 2:
        first = max(1, lines[0])
        shown = shown[first - 1 : None if lines[1] == -1 else lines[1]]
    numbered = _number_file_lines(shown, first)
    return f"Here's the content of {path} with line numbers:\n{numbered}"


def _number_file_lines(lines: Sequence[str], first: int) -> str:
    numbered = enumerate(lines, first)
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in numbered)


def _directory_listing(path: str, depth: int, items: Sequence[Item]) -> str:
    """Return the files and directories below a path, hidden ones left out."""
    sizes: dict[tuple[str, ...], int] = {}
    files: dict[tuple[str, ...], bool] = {}
    total = 0
    for item in items:
        names = (*item.namespace[depth:], item.key)
        size = len(item.value.encode())
        total += size
        if any(name.startswith(".") for name in names):
            continue
        for count in range(1, min(_LEVELS, len(names)) + 1):
            sizes[names[:count]] = sizes.get(names[:count], 0) + size
            files[names[:count]] = count == len(names)
    lines = [f"{_size_with_unit(total)}\t{path}"]
    for names in sorted(sizes):
        end = "" if files[names] else "/"
        lines.append(f"{_size_with_unit(sizes[names])}\t{path}/{'/'.join(names)}{end}")
    text = "\n".join(lines)
    return (
        f"Here're the files and directories up to {_LEVELS} levels deep in {path}, "
        f"excluding hidden items:\n{text}"
    )


def _size_with_unit(size: int) -> str:
    """Return a number of bytes with a unit, such as 1.5K."""
    number, unit = float(size), 0
    while number >= 1024 and unit < 3:
        number, unit = number / 1024, unit + 1
    shown = f"{int(number)}" if number == int(number) else f"{number:.1f}"
    return f"{shown}{'BKMG'[unit]}"


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
        self._memory, self._owned = opened(memory, app_name, user_id, embedder=None)
        self._files = Files(self._memory.sync.user(app_name, user_id).items)

    def close(self) -> None:
        """Close the file, if this object opened it."""
        if self._owned:
            self._memory.close()

    def view(self, command: Any) -> str:
        """Return the lines of a file, or the files of a directory."""
        return _run_file_command_for_model(self._files, command)

    def create(self, command: Any) -> str:
        """Write a new file."""
        return _run_file_command_for_model(self._files, command)

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once in a file."""
        return _run_file_command_for_model(self._files, command)

    def insert(self, command: Any) -> str:
        """Insert a text after a line of a file."""
        return _run_file_command_for_model(self._files, command)

    def delete(self, command: Any) -> str:
        """Delete a file, or a directory with all files below it."""
        return _run_file_command_for_model(self._files, command)

    def rename(self, command: Any) -> str:
        """Rename a file or a directory."""
        return _run_file_command_for_model(self._files, command)

    def clear_all_memory(self) -> str:
        """Delete all files of the user."""
        return self._files.delete_all_files()


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

    aclose = on_thread(VecallMemoryTool.close, "a{}", "_tool")
    view = on_thread(VecallMemoryTool.view, "{}", "_tool")
    create = on_thread(VecallMemoryTool.create, "{}", "_tool")
    str_replace = on_thread(VecallMemoryTool.str_replace, "{}", "_tool")
    insert = on_thread(VecallMemoryTool.insert, "{}", "_tool")
    delete = on_thread(VecallMemoryTool.delete, "{}", "_tool")
    rename = on_thread(VecallMemoryTool.rename, "{}", "_tool")
    clear_all_memory = on_thread(VecallMemoryTool.clear_all_memory, "{}", "_tool")


def _run_file_command_for_model(files: Files, command: Any) -> str:
    """Run a command; raise its failures as the errors that the model sees."""
    try:
        return files.run_file_command(command)
    except FileError as error:
        raise ToolError(str(error)) from None
    except VecallError as error:
        raise ToolError(f"The memory cannot do that: {error}") from error

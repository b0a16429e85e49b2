"""VecallMemoryStore: the files of pydantic-ai-harness' `Memory`, as items.

Needs vecall[pydantic-ai-harness].
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
import zlib
from collections.abc import Mapping
from itertools import islice
from typing import Any

from vecall import errors
from vecall.service.memory_service import MemoryService
from vecall.types import Drop, Item, Put

with errors.needs_extra(__name__, "pydantic-ai-harness", "pydantic-ai-harness"):
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )

_DOTS = "..."


def _snippet_of_file(content: str, words: list[str], size: int) -> str:
    """Return the part of a text around the first word that it has."""
    if len(content) <= size:
        return content
    if size <= 2 * len(_DOTS):
        return content[:size]
    lower = content.lower()
    places = [place for word in words if (place := lower.find(word)) >= 0]
    start = min(max(0, min(places, default=0) - size // 3), len(content) - size)
    stop = start + size
    head = _DOTS if start else ""
    tail = _DOTS if stop < len(content) else ""
    return head + content[start + len(head) : stop - len(tail)] + tail


_FILES = ("pydantic-ai", "files")  # and the segments of the path, but the last one
_RECEIPTS = ("pydantic-ai", "receipts")
_MOST_RECEIPTS = 1_024
_PRUNE_ONE_IN = 64  # operations
_PRUNED = 10_000  # receipts
_MOST_FILES = 20_000  # of a listing
_MOST_METADATA = 4_096  # characters of their JSON
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class ChangedError(MemoryConflictError, errors.ConflictError):
    """A file is not in the expected version; nothing was changed."""


class ReusedOperationError(MemoryOperationConflictError, errors.ConflictError):
    """The id of an operation was used before with other arguments."""


class VecallMemoryStore:
    """A durable store for `pydantic_ai_harness.Memory(store)`, of one user.

    It is a `MemoryStore`, a `MetadataMemoryStore` and a `SearchableMemoryStore`. Files
    are stored apart from memories: a search of memories does not find them;
    `delete_user` deletes them. Several processes may use one store. A write and its
    receipt are one transaction, which is durable when the call returns. The receipts of
    at least the last 1,024 operations are stored.

    Paths are segments of up to 200 ASCII letters, digits, "_", "-" and ".", without
    "..", joined by "/".

    Args:
        memory: The memory service.
        app_name: The app.
        user_id: The user.

    Raises:
        InvalidArgumentError: An invalid name.
    """

    def __init__(self, memory: MemoryService, app_name: str, user_id: str) -> None:
        """Bind the store to one user."""
        self._items = memory.user(app_name, user_id).items

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the beginning of a file; None if there is none.

        Args:
            path: The path.
            max_chars: Maximum number of characters of the content.
        """
        _check_positive_limit(max_chars, "max_chars")
        (item,) = await self._items.get([_item_place_of_path(path)])
        if item is None:
            return None
        content: str = item.value["content"]
        return MemoryFile(
            content=content[:max_chars],
            version=item.value["version"],
            operation_id=item.value["operation"],
            truncated=len(content) > max_chars,
            metadata=item.value["metadata"],
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the result of an earlier operation; None if it is unknown.

        Raises:
            ReusedOperationError: The operation had other arguments.
        """
        (receipt,) = await self._items.get([_place_of_receipt(operation)])
        return _mutation_of_receipt(receipt, operation)

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Write a file without metadata; see `write_with_metadata`."""
        return await self.write_with_metadata(
            path,
            content,
            expected_version=expected_version,
            metadata=None,
            operation=operation,
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file that is in the expected version.

        Args:
            path: The path.
            content: The content.
            expected_version: The version that is replaced; None if there must be none.
            metadata: Strings that describe the write; up to 4,096 characters of JSON.
            operation: An id by which the call is recognised if it is repeated; the
                repetition writes nothing and returns the first result.

        Raises:
            ChangedError: The file is in another version.
            ReusedOperationError: The operation had other arguments.
            InvalidArgumentError: An invalid path, content or metadata.
            LimitExceededError: The content is over `Limits.max_item_bytes`.
        """
        untyped: object = content
        if not isinstance(untyped, str):
            raise errors.InvalidTypeError("content: expected a text")
        value = {
            "content": content,
            "version": uuid.uuid4().hex,
            "operation": None if operation is None else operation.id,
            "metadata": _checked_file_metadata(metadata),
        }
        return await self._change_file(path, value, expected_version, operation)

    async def delete(
        self,
        path: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Delete a file that is in the expected version.

        Raises:
            ChangedError: The file is in another version.
            ReusedOperationError: The operation had other arguments.
        """
        return await self._change_file(path, None, expected_version, operation)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first paths that start with a prefix, sorted.

        Raises:
            LimitExceededError: Over 20,000 files are in the prefix' directory.
        """
        _check_positive_limit(limit, "limit")
        return sorted(await self._files_starting_with(prefix))[:limit]

    async def search(
        self,
        prefix: str,
        query: str,
        *,
        limit: int,
        max_files: int,
        max_chars: int,
        max_file_chars: int,
    ) -> MemorySearchResult:
        """Return the files that have words of a query, best first.

        Only files whose path is the prefix and a name are searched: a deeper one may be
        of another agent.

        Args:
            prefix: The beginning of the paths.
            query: Words.
            limit: Maximum number of files in the result.
            max_files: Number of files that are searched, in the order of their paths.
            max_chars: Maximum number of characters of all names and snippets.
            max_file_chars: Number of characters of each file that are searched.
        """
        found = await self._files_starting_with(prefix)
        words = query.lower().split()
        if not words or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        files = {
            path.removeprefix(prefix): item.value["content"]
            for path, item in sorted(found.items())
            if "/" not in path.removeprefix(prefix)
        }

        def rank() -> MemorySearchResult:
            """Count the words, without regard to case; those in a name twice."""
            is_cut = len(files) > max_files
            ranked: list[tuple[int, str]] = []
            for name, content in islice(files.items(), max_files):
                is_cut = is_cut or len(content) > max_file_chars
                text, title = content[:max_file_chars].lower(), name.lower()
                score = sum(text.count(word) + 2 * title.count(word) for word in words)
                if score:
                    ranked.append((-score, name))
            ranked.sort()
            matches: list[MemorySearchMatch] = []
            left = max_chars
            for rank, name in ranked[:limit]:
                room = left - len(name)
                if room <= 0:
                    break
                snippet = _snippet_of_file(files[name][:max_file_chars], words, room)
                matches.append(
                    MemorySearchMatch(
                        path=prefix + name, snippet=snippet, score=float(-rank)
                    )
                )
                left = room - len(snippet)
            return MemorySearchResult(
                matches=matches,
                scanned=min(len(files), max_files),
                truncated=is_cut or len(ranked) > len(matches),
            )

        return await asyncio.to_thread(rank)

    async def _change_file(
        self,
        path: str,
        value: dict[str, Any] | None,
        expected: str | None,
        operation: MemoryOperation | None,
    ) -> MemoryMutation:
        place = _item_place_of_path(path)
        places = [place] if operation is None else [place, _place_of_receipt(operation)]
        found = await self._items.get(places)
        done = None if operation is None else _mutation_of_receipt(found[1], operation)
        if done is not None:
            return done
        file = found[0]
        if (None if file is None else file.value["version"]) != expected:
            raise ChangedError("the file is not in the expected version")
        before = 0 if file is None else file.version
        version = None if value is None else value["version"]
        changes: list[Put | Drop] = []
        if value is not None:
            changes.append(Put(*place, value, if_version=before))
        elif file is not None:
            changes.append(Drop(*place, if_version=before))
        if operation is not None:
            receipt = {
                "fingerprint": operation.fingerprint,
                "version": version,
                "existed": file is not None,
            }
            changes.append(Put(*_place_of_receipt(operation), receipt, if_version=0))
        try:
            await self._items.write(changes)
        except errors.ConflictError:
            # Another call was faster: with this operation, or with this file.
            done = None if operation is None else await self.get_operation(operation)
            if done is not None:
                return done
            raise ChangedError("the file was changed by another call") from None
        if operation is not None:
            await self._prune_receipts(operation)
        return MemoryMutation(version=version, replayed=False, existed=file is not None)

    async def _prune_receipts(self, operation: MemoryOperation) -> None:
        """Delete old receipts, after one in 64 operations."""
        if zlib.crc32(_place_of_receipt(operation)[1].encode()) % _PRUNE_ONE_IN:
            return
        old = await self._items.find(_RECEIPTS, limit=_PRUNED, offset=_MOST_RECEIPTS)
        await self._items.write([Drop(item.namespace, item.key) for item in old])

    async def _files_starting_with(self, prefix: str) -> dict[str, Item]:
        """Return the files whose path starts with a prefix, in the order of writes."""
        if prefix:
            _segments_of_path(prefix.removesuffix("/"))
        directory = (*_FILES, *prefix.split("/")[:-1])
        if await self._items.count(directory) > _MOST_FILES:
            raise errors.LimitExceededError(
                "prefix: over 20,000 files in its directory"
            )
        paths = {
            "/".join([*item.namespace[len(_FILES) :], item.key]): item
            for item in await self._items.find_all(directory)
        }
        return {path: paths[path] for path in paths if path.startswith(prefix)}


def _segments_of_path(path: str) -> list[str]:
    segments = path.split("/")
    for segment in segments:
        if not _SEGMENT.fullmatch(segment) or ".." in segment or segment == ".":
            raise errors.InvalidArgumentError(
                'path: segments of 1 to 200 letters, digits, "_", "-" and ".", without '
                '"..", joined by "/"'
            )
    return segments


def _item_place_of_path(path: str) -> tuple[tuple[str, ...], str]:
    *directory, name = _segments_of_path(path)
    return (*_FILES, *directory), name


def _place_of_receipt(operation: MemoryOperation) -> tuple[tuple[str, ...], str]:
    id_ = operation.id.encode("utf-8", "surrogatepass")
    return _RECEIPTS, hashlib.sha256(id_).hexdigest()


def _mutation_of_receipt(
    receipt: Item | None, operation: MemoryOperation
) -> MemoryMutation | None:
    if receipt is None:
        return None
    if receipt.value["fingerprint"] != operation.fingerprint:
        msg = "the id of the operation was used with other arguments"
        raise ReusedOperationError(msg)
    return MemoryMutation(
        version=receipt.value["version"],
        replayed=True,
        existed=receipt.value["existed"],
    )


def _check_positive_limit(number: int, name: str) -> None:
    if number <= 0:
        raise errors.InvalidArgumentError(f"{name}: must be positive")


def _checked_file_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    untyped: list[object] = [*metadata, *metadata.values()]
    for each in untyped:
        if not isinstance(each, str):
            raise errors.InvalidTypeError("metadata: keys and values must be strings")
        if "\x00" in each:
            raise errors.InvalidArgumentError("metadata: no NUL")
    text = json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":"))
    if len(text) > _MOST_METADATA:
        msg = f"metadata: at most {_MOST_METADATA} characters as JSON"
        raise errors.LimitExceededError(msg)
    return dict(metadata)

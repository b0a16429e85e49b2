"""Searches files for words, as the stores of pydantic-ai-harness do."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_ai_harness.memory import MemorySearchMatch, MemorySearchResult

NO_RESULT = MemorySearchResult(matches=[], scanned=0, truncated=False)
_DOTS = "..."


def search_files(
    prefix: str,
    files: Mapping[str, str],
    query: str,
    *,
    limit: int,
    max_files: int,
    max_chars: int,
    max_file_chars: int,
) -> MemorySearchResult:
    """Return the files that have words of a query, best first.

    The score is the number of occurrences of the words, without regard to case; those
    in the name count twice.

    Args:
        prefix: What the paths in the result have before a name.
        files: The contents by name.
        query: Words.
        limit: Maximum number of files in the result.
        max_files: Number of files that are searched, in the order of their names.
        max_chars: Maximum number of characters of all names and snippets.
        max_file_chars: Number of characters of each file that are searched.
    """
    words = query.lower().split()
    names = sorted(files)
    truncated = len(names) > max_files
    ranked: list[tuple[int, str]] = []
    for name in names[:max_files]:
        content = files[name]
        truncated = truncated or len(content) > max_file_chars
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
        snippet = _snippet(files[name][:max_file_chars], words, room)
        matches.append(
            MemorySearchMatch(path=prefix + name, snippet=snippet, score=float(-rank))
        )
        left = room - len(snippet)
    return MemorySearchResult(
        matches=matches,
        scanned=min(len(names), max_files),
        truncated=truncated or len(ranked) > len(matches),
    )


def _snippet(content: str, words: list[str], size: int) -> str:
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

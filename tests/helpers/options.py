"""Options of a memory service by the names of their fields, whatever their group."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from vecall import SearchOptions, StorageOptions, WritePolicy

GROUPS: dict[str, Any] = {
    "search": SearchOptions,
    "storage": StorageOptions,
    "writes": WritePolicy,
}


def grouped(**options: Any) -> dict[str, Any]:
    """The arguments of `MemoryService`, of arguments and of fields of its groups.

    So options of one test can be put before those that several tests share.
    """
    for group, kind in GROUPS.items():
        names = {field.name for field in fields(kind)} & options.keys()
        values = {name: options.pop(name) for name in names}
        if values:
            given = options.get(group)
            options[group] = replace(given, **values) if given else kind(**values)
    return options

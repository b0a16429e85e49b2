"""Checks and matches LangGraph's namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    PutOp,
    SearchOp,
)

Labels = tuple[str, ...]


def check_operation(op: Any) -> None:
    """Check the labels of an operation.

    Raises:
        InvalidNamespaceError: A label is empty, is no string, or has "." or NUL.
        ValueError: Not one of LangGraph's operations.
    """
    if isinstance(op, GetOp | PutOp):
        check_item_namespace(op.namespace)
    elif isinstance(op, SearchOp):
        _check_labels(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            _check_labels(condition.path)
            if condition.match_type not in ("prefix", "suffix"):
                msg = "match_type: must be prefix or suffix"
                raise ValueError(msg)
    else:
        msg = f"unknown operation: {type(op).__name__}"
        raise ValueError(msg)


def check_item_namespace(labels: Sequence[Any]) -> None:
    """Check the namespace of an item.

    Raises:
        InvalidNamespaceError: It has no label, or one that LangGraph does not allow.
    """
    _check_labels(labels)
    if not labels:
        msg = "namespace: must have a label"
        raise InvalidNamespaceError(msg)


def _check_labels(labels: Sequence[Any]) -> None:
    for label in labels:
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            msg = "namespace: labels are non-empty strings without a period or NUL"
            raise InvalidNamespaceError(msg)


def listed(names: Iterable[Labels], op: Any) -> list[Labels]:
    """Return the namespaces that a ListNamespacesOp asks for."""
    conditions = op.match_conditions
    found = list(names)
    if conditions:
        found = [name for name in found if _matches(name, conditions)]
    if op.max_depth is not None:
        found = list(dict.fromkeys(name[: op.max_depth] for name in found))
    found.sort()
    return found[op.offset : op.offset + op.limit]


def known_prefix(op: Any) -> Labels:
    """Return the labels with which every wanted namespace begins."""
    best: Labels = ()
    for condition in op.match_conditions or ():
        if condition.match_type == "prefix":
            known: Labels = ()
            for label in condition.path:
                if label == "*":
                    break
                known = (*known, label)
            best = max(best, known, key=len)
    return best


def _matches(name: Labels, conditions: Iterable[Any]) -> bool:
    for condition in conditions:
        path = tuple(condition.path)
        if len(name) < len(path):
            return False
        part = name[: len(path)]
        if condition.match_type == "suffix":
            part = name[len(name) - len(path) :]
        if any(w not in ("*", label) for w, label in zip(path, part, strict=True)):
            return False
    return True

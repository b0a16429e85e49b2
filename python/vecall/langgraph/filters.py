"""Checks the filters of LangGraph's searches."""

from __future__ import annotations

import math
import re
from typing import Any

from langgraph.store.base import SearchOp

from vecall.errors import InvalidArgumentError
from vecall.langgraph.values import plain

_FILTER_KEY = re.compile(r"[\w.\-]+", re.ASCII)
_WHOLE = ("$and", "$or", "$not")


def where_of(op: SearchOp) -> Any:
    """Return the conditions of a search for `Items.find`; None for none.

    Raises:
        InvalidArgumentError: A key that LangGraph does not allow.
    """
    for key in op.filter or ():
        if key not in _WHOLE and not (
            isinstance(key, str) and _FILTER_KEY.fullmatch(key)
        ):
            msg = "Invalid filter key: expected letters, digits, '_', '.' and '-'"
            raise InvalidArgumentError(msg)
    return plain(op.filter, math.inf) if op.filter else None

"""Upstream tests that another implementation cannot pass, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


def expect_failures(items: list[Any], reasons: Mapping[str, str]) -> None:
    """Mark tests as expected to fail; one that passes fails the run.

    Args:
        items: The collected tests.
        reasons: The reason of each test, by the name of its function.

    Raises:
        pytest.UsageError: A name is that of no test.
    """
    left = set(reasons)
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        if name in reasons:
            left.discard(name)
            item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))
    if left:
        msg = f"there are no such tests: {', '.join(sorted(left))}"
        raise pytest.UsageError(msg)

"""Fixtures that several test files share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="session")
def references() -> ModuleType:
    """The module references.py: test files cannot import each other by name."""
    path = Path(__file__).with_name("references.py")
    spec = importlib.util.spec_from_file_location("vecall_test_references", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module

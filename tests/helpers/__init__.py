"""What several test files share; tests/conftest.py makes it importable as `helpers`."""

from __future__ import annotations

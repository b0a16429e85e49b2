"""Folders of the project that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
FIXTURES = TESTS / "fixtures"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"

"""Benchmarks, by question: README.md lists them.

Some use helpers of the tests, so importing this package adds `tests` to the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

from __future__ import annotations
from vecall._core import Engine, Index, build_info

"""One query: candidates from the engine, ranked, with confidence, as entries."""

from __future__ import annotations

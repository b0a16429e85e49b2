"""Read operations on the file."""

from __future__ import annotations

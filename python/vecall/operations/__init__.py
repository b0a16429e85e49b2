"""The operations of a memory service, one file for each group."""

from __future__ import annotations

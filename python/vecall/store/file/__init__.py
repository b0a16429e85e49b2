"""The SQLite file: connections, locks, schema, disk space."""

from __future__ import annotations

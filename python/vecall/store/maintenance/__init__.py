"""Maintenance of a whole file: backup, purge, doctor, recovery."""

from __future__ import annotations

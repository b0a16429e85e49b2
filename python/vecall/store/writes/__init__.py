"""Writes of the file: one job for each kind of change."""

from __future__ import annotations

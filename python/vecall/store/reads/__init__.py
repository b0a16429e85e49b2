"""Reads of the file."""

from __future__ import annotations

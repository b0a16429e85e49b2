"""Writes of the file: a job for each kind of change; transfers read, too."""

from __future__ import annotations

"""Loads partitions from the file into the engine and synchronizes them."""

from __future__ import annotations

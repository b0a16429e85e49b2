"""Formats recalled memories for a prompt, and removes such blocks from a text."""

from __future__ import annotations

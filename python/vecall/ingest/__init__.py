"""Converts the caller's sessions, events and entries to drafts of memories."""

from __future__ import annotations

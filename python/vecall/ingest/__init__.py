"""Turns the caller's sessions, events and entries into drafts of memories."""

from __future__ import annotations

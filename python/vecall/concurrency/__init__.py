"""Threads, thread pools, futures, locks and event loops."""

from __future__ import annotations

"""Threads, futures, locks and the ways to wait for them."""

from __future__ import annotations

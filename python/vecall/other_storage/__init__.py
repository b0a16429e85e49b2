"""Memory services with other storage or other ways of searching."""

from __future__ import annotations

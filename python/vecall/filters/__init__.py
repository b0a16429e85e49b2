"""Filter conditions on labels, custom metadata and trust tiers."""

from __future__ import annotations

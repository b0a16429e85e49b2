"""What a filter accepts: labels, custom metadata, tiers of trust."""

from __future__ import annotations

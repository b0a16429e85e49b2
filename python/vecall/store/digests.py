"""Digests of overwritten revisions, which prevent ingest from undoing a correction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

from vecall.store.rows import Draft
from vecall.store.values import stored_object

SHORT = 4  # hexadecimal digits of a digest after a purge

COMPARED = (
    "session event ts author kind source trust text content meta importance"
).split()
"""The fields whose change makes a new revision."""


def was_overwritten(draft: Draft, digests: set[str]) -> bool:
    """Whether a draft equals a revision that a correction has overwritten."""
    digest = digest_of(draft)
    return digest in digests or digest[:SHORT] in digests


def digest_of(draft: Draft) -> str:
    """Return a digest of the fields in `COMPARED`."""
    return _digest({name: getattr(draft, name) for name in COMPARED})


def digest_of_old(old: str) -> str:
    """Return the digest of a revision; the history may hold only the digest."""
    revision: dict[str, object] = stored_object(old)
    digest = revision.get("digest")
    return digest if isinstance(digest, str) else _digest(revision)


def _digest(values: Mapping[str, object]) -> str:
    text = json.dumps([values.get(name) for name in COMPARED])
    return blake2b(text.encode(), digest_size=16).hexdigest()

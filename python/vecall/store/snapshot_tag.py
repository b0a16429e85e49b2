"""The tag of a snapshot, and the record in the file that makes the snapshot valid.

A snapshot is valid if the storage records its nonce and its digest for the partition,
and its history contains the snapshot's newest change, which has the same random bits.
So only a process that can write the storage can make a valid snapshot. Every snapshot
has a new nonce, which is recorded after the snapshot is in place. So a storage that was
replaced by a backup has no record of the snapshots that were made later.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from hashlib import blake2b
from typing import NamedTuple

from vecall.lexical import ANALYSIS_VERSION

NONCE_BYTES = 8
_DIGEST_BYTES = 16
_TAG = struct.Struct("<16sIIQ8sII")  # 48 bytes, the size of the engine's tag
TAG_AT = 64
"""Where the tag is in a snapshot."""
HEADER_BYTES = 128
"""Of a snapshot; the tag is inside."""
# Tags of the first format had no random bits, and a number of 8 bytes.
_ANALYSIS = zlib.crc32(f"{ANALYSIS_VERSION}, tag 2".encode())


class SnapshotTag(NamedTuple):
    """Identifies the state that a snapshot holds.

    Attributes:
        uuid: The identity of the storage.
        part: The number of the partition.
        seq: The newest change that the snapshot contains.
        head: Random bits of that change.
        nonce: Random bytes, new for every snapshot.
        model: The number of the model of its vectors; 0 without vectors.
        analysis: The version of the text analysis that produced its terms.
    """

    uuid: bytes
    part: int
    seq: int
    head: int
    nonce: bytes
    model: int
    analysis: int

    @classmethod
    def new(cls, uuid: bytes, version: tuple[int, int, int], model: int) -> SnapshotTag:
        """Return the tag of a snapshot that is about to be taken."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return cls(uuid, *version, nonce, model, _ANALYSIS)

    @classmethod
    def unpack(cls, data: bytes) -> SnapshotTag:
        """Return the tag that 48 bytes encode."""
        return cls(*_TAG.unpack(data))

    @classmethod
    def of_snapshot(cls, header: bytes) -> SnapshotTag | None:
        """Return the tag in the first bytes of a snapshot; None if they are too few."""
        tag = header[TAG_AT : TAG_AT + _TAG.size]
        return cls.unpack(tag) if len(tag) == _TAG.size else None

    def pack(self) -> bytes:
        """Return the tag as 48 bytes."""
        return _TAG.pack(*self)

    def is_of(self, uuid: bytes, part: int, record: bytes, model: int) -> bool:
        """Whether the tag belongs to the snapshot that is on record for a partition."""
        nonce = record[:NONCE_BYTES]
        state = self._replace(seq=0, head=0)
        return state == (uuid, part, 0, 0, nonce, model, _ANALYSIS)


def recorded(nonce: bytes, data: bytes) -> bytes:
    """Return the record that a storage has of a snapshot: nonce and digest."""
    return nonce + blake2b(data, digest_size=_DIGEST_BYTES).digest()

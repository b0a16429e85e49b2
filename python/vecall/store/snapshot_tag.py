"""The tag of a snapshot, and the record in the file that makes the snapshot valid.

A snapshot is valid if the file records its nonce and its digest for the partition. So
only a process that can write the file can make a valid snapshot. Every snapshot has a
new nonce, which is recorded after the snapshot is in place. So the record proves that
the file's history contains the state of the snapshot, also after the file was replaced
by a backup.
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
_TAG = struct.Struct("<16sQQ8sII")  # 48 bytes, the size of the engine's tag
_ANALYSIS = zlib.crc32(ANALYSIS_VERSION.encode())


class SnapshotTag(NamedTuple):
    """Identifies the state that a snapshot holds.

    Attributes:
        uuid: The identity of the storage.
        part: The number of the partition.
        seq: The newest change that the snapshot contains.
        nonce: Random bytes, new for every snapshot.
        model: The number of the model of its vectors; 0 without vectors.
        analysis: The version of the text analysis that produced its terms.
    """

    uuid: bytes
    part: int
    seq: int
    nonce: bytes
    model: int
    analysis: int

    @classmethod
    def new(cls, uuid: bytes, part: int, seq: int, model: int) -> SnapshotTag:
        """Return the tag of a snapshot that is about to be taken."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return cls(uuid, part, seq, nonce, model, _ANALYSIS)

    @classmethod
    def unpack(cls, data: bytes) -> SnapshotTag:
        """Return the tag that 48 bytes encode."""
        return cls(*_TAG.unpack(data))

    def pack(self) -> bytes:
        """Return the tag as 48 bytes."""
        return _TAG.pack(*self)

    def is_of(self, uuid: bytes, part: int, record: bytes, model: int) -> bool:
        """Whether the tag belongs to the snapshot that is on record for a partition."""
        nonce = record[:NONCE_BYTES]
        return self._replace(seq=0) == (uuid, part, 0, nonce, model, _ANALYSIS)


def recorded(nonce: bytes, data: bytes) -> bytes:
    """Return the record that the file stores of a snapshot: nonce and digest."""
    return nonce + blake2b(data, digest_size=_DIGEST_BYTES).digest()

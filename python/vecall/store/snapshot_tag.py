"""What makes a snapshot valid: its tag, and what the file has on record of it.

A snapshot is believed if the file has its nonce and its digest on record for the
partition, so only a process that can write the file makes a snapshot. Since the nonce
is new for every snapshot and recorded after the snapshot is in place, the record
proves that the file's history contains the very state of the snapshot, also after a
backup was put in the file's place.
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
_TAG = struct.Struct("<16sQQ8sII")  # 48 bytes, as many as a snapshot's tag has
_ANALYSIS = zlib.crc32(ANALYSIS_VERSION.encode())


class SnapshotTag(NamedTuple):
    """What a snapshot is of.

    Attributes:
        uuid: The identity of the storage.
        part: The number of the partition.
        seq: The newest change that the snapshot has.
        nonce: Random bytes, new for every snapshot.
        model: The number of the model of its vectors, 0 without vectors.
        analysis: The version of the analysis that made its words.
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
        """Read a tag."""
        return cls(*_TAG.unpack(data))

    def pack(self) -> bytes:
        """Return the tag as 48 bytes."""
        return _TAG.pack(*self)

    def is_of(self, uuid: bytes, part: int, record: bytes, model: int) -> bool:
        """Whether the snapshot is the one on record for a partition."""
        nonce = record[:NONCE_BYTES]
        return self._replace(seq=0) == (uuid, part, 0, nonce, model, _ANALYSIS)


def recorded(nonce: bytes, data: bytes) -> bytes:
    """Return what the file stores of a snapshot: its nonce and its digest."""
    return nonce + blake2b(data, digest_size=_DIGEST_BYTES).digest()

"""All that can be read of one state."""

from __future__ import annotations

from typing import Protocol

from vecall.store.protocol.owner_reads import (
    MemoryReads,
    PartitionReads,
    SessionReads,
    WriteReads,
)
from vecall.store.protocol.whole_reads import (
    ConsolidationReads,
    ExportReads,
    ModelReads,
    OwnerReads,
)


class StorageReads(
    PartitionReads,
    MemoryReads,
    WriteReads,
    SessionReads,
    OwnerReads,
    ModelReads,
    ConsolidationReads,
    ExportReads,
    Protocol,
):
    """The read operations of one state; valid inside the block of `Storage.read`.

    `now` is a time of `Storage.expiry_clock`: what has expired by then is left out.
    Every operation may raise CorruptFileError, where what it reads is damaged, and
    ClosedError after the block.
    """

"""All read operations of the storage protocol."""

from __future__ import annotations

from typing import Protocol

from vecall.store.protocol.item_reads import ItemReads
from vecall.store.protocol.owner_reads import (
    MemoryReads,
    PartitionReads,
    SessionReads,
    WriteReads,
)
from vecall.store.protocol.whole_reads import (
    ConsolidationReads,
    CopyReads,
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
    CopyReads,
    ItemReads,
    Protocol,
):
    """The read operations on one state; valid inside the block of `Storage.read`.

    `now` is a time of `Storage.expiry_clock`, in seconds since 1970. Memories that
    expired by `now` are left out. Every operation raises CorruptFileError if the data
    that it reads is damaged, and ClosedError after the block.
    """

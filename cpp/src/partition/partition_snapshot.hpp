#pragma once

// A whole partition as bytes and back. The bytes are a cache: what they cannot give is
// built again, and what is wrong with them is an error, never a wrong answer.

#include <cstddef>
#include <span>
#include <vector>

#include "partition/partition.hpp"
#include "snapshot/snapshot_format.hpp"
#include "snapshot/snapshot_reader.hpp"
#include "snapshot/snapshot_writer.hpp"

namespace vecall {

class PartitionSnapshot {
 public:
  // `tag`, up to SnapshotHeader::kTagBytes, comes back with the snapshot. Takes the
  // partition's lock itself. With what spares a reader that maps it a look at every row
  // where asked for.
  static std::vector<std::byte> save(const Partition& partition,
                                     std::span<const std::byte> tag,
                                     bool for_mapping = false);
  // What an engine must be to hold the snapshot's rows.
  static Ref<const PartitionSpace> space_of(const SnapshotReader& reader);
  // Throws IncompatibleDataError if the snapshot's vectors are not of that space, and
  // CorruptDataError if its rows cannot be right. A partition of a snapshot that stays
  // mapped is never to be changed, and has rows with ids and vectors alone.
  static Ref<Partition> restore(const SnapshotReader& reader,
                                const Ref<const PartitionSpace>& space,
                                PartitionKey key = {});

  // Makes the table of ids of a mapped partition, unless it is there. Throws
  // CorruptDataError where two rows have one id.
  static void find_ids(Partition& partition) VECALL_EXCLUDES(partition.mutex());

 private:
  // All but the checksums.
  static SnapshotWriter save_locked(const Partition& partition,
                                    std::span<const std::byte> tag, bool for_mapping)
      VECALL_REQUIRES_SHARED(partition.mutex());
};

}  // namespace vecall

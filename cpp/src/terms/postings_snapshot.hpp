#pragma once

// The words of a partition as sections of a snapshot. Callers hold the partition's
// lock.

#include <functional>

#include "snapshot/snapshot_reader.hpp"
#include "snapshot/snapshot_writer.hpp"
#include "terms/postings.hpp"

namespace vecall {

class PostingsSnapshot {
 public:
  static void save(const Postings& postings, SnapshotWriter& writer);
  // Fills empty postings. Throws CorruptDataError unless every list names live rows in
  // order.
  static void restore(const SnapshotReader& reader,
                      const std::function<bool(Slot)>& is_live, Postings& postings);
};

}  // namespace vecall

#pragma once

// The rows of a table as sections of a snapshot, by slot. Names, expiries' meaning and
// the order of sessions are the partition's. Callers hold the partition's lock.

#include <functional>

#include "rows/row_table.hpp"
#include "snapshot/snapshot_reader.hpp"
#include "snapshot/snapshot_writer.hpp"

namespace vecall {

class RowTableSnapshot {
 public:
  // `is_linked` says whether a slot stands in the graph: of a removed row that does,
  // the high plane is saved as a waypoint; of others nothing is.
  static void save(const RowTable& rows, const std::function<bool(Slot)>& is_linked,
                   SnapshotWriter& writer);
  // Fills an empty table. Throws CorruptDataError where rows cannot be right. Of a
  // snapshot that stays mapped, the table keeps the bytes, and believes vectors and
  // ids.
  static void restore(const SnapshotReader& reader, RowTable& rows);

 private:
  static void copy_in(std::span<const std::byte> from, RowLayout::Column column,
                      RowTable& rows);
  static void map(const SnapshotReader& reader, RowTable& rows);
  static void restore_flags(const SnapshotReader& reader, RowTable& rows);
  static void check_numbers(RowTable& rows);
};

}  // namespace vecall

#pragma once

// A partition's graph as sections of a snapshot.

#include <memory>
#include <mutex>

#include "index/graph_index.hpp"
#include "snapshot/snapshot_reader.hpp"
#include "snapshot/snapshot_writer.hpp"

namespace vecall {

class GraphSnapshot {
 public:
  // While this is held no row is being linked. Taken before the partition's lock.
  static std::unique_lock<FairMutex> pause(GraphIndex& index) {
    return std::unique_lock(index.linking_);
  }
  static bool is_linked(const GraphIndex& index, Slot slot) noexcept {
    return index.graph_ != nullptr && index.graph_->is_linked(slot);
  }
  // REQUIRES: paused, index.ready(). With the lists of copies only where asked for.
  static void save(const GraphIndex& index, const RowTable& rows, bool with_copies,
                   SnapshotWriter& writer);
  // Fills an index that has no graph. Throws CorruptDataError where a link leads to
  // nowhere. Of a snapshot that stays mapped, the graph keeps the lists of the lowest
  // level, of which a search passes over links that lead to nowhere.
  static void restore(const SnapshotReader& reader, RowTable& rows, GraphIndex& index);

 private:
  static void restore_list(std::span<const std::uint8_t> heights, const Slot* list,
                           Slot slot, int level, Graph& graph);
  // Those of rows that equal each other, and where searches begin.
  static void restore_entrances(const SnapshotReader& reader, const RowTable& rows,
                                Graph& graph);
};

}  // namespace vecall

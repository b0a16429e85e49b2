#pragma once

// The engine: many partitions, one for each (app, user). It knows no text, no SQL, no
// clock, no files and no network. Thread-safe: writes take the partition's lock
// themselves; readers take it through find(), as partition.hpp describes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph_options.hpp"
#include "partition/partition_map.hpp"
#include "partition/partition_space.hpp"
#include "snapshot/snapshot_reader.hpp"
#include "vecall/types.hpp"

namespace vecall {

class Engine {
 public:
  // `dim` is the length of every vector, 0 for an engine of words alone; `seed` is of
  // the rotation before vectors become codes (vectors/rotation.hpp). Throws
  // LimitExceededError above kMaxDim and ConfigError for a bad VECALL_ISA.
  Engine(std::size_t dim, Codec codec, bool keep_float32, const GraphOptions& graph,
         std::uint64_t seed = kRotationSeed);

  // Adds rows or replaces those with the same id; makes the partition if need be.
  // Throws before anything changes if a vector or a size is wrong.
  void add(PartitionKey key, const RowBatch& batch);
  // Returns how many of the ids were there.
  std::size_t remove(PartitionKey key, std::span<const RowId> ids);
  // Forgets a whole partition; true if there was one.
  bool drop(PartitionKey key) { return partitions_.erase(key); }

  // A partition as bytes (partition/partition_snapshot.hpp); none if there is none.
  [[nodiscard]] std::vector<std::byte> snapshot(PartitionKey key,
                                                std::span<const std::byte> tag) const;
  // Puts the partition of a snapshot in the place of what stood there.
  void restore(PartitionKey key, const SnapshotReader& reader);

  // Partitions to evict first (partition/partition_map.hpp).
  std::vector<Ref<Partition>> sweep(std::size_t most) {
    return partitions_.sweep(most);
  }

  [[nodiscard]] Ref<Partition> find(PartitionKey key) const {
    return partitions_.find(key);
  }
  [[nodiscard]] std::size_t size(PartitionKey key) const;
  [[nodiscard]] std::size_t partitions() const { return partitions_.size(); }
  [[nodiscard]] std::size_t dim() const noexcept { return space_->rows.dim(); }
  [[nodiscard]] std::size_t nbytes() const { return partitions_.nbytes(); }
  [[nodiscard]] std::size_t nbytes_of(PartitionKey key) const;

 private:
  const Ref<const PartitionSpace> space_;
  PartitionMap partitions_;
};

}  // namespace vecall

#include "engine/engine.hpp"

#include <mutex>
#include <shared_mutex>

#include "kernels/dispatch.hpp"
#include "partition/linker.hpp"
#include "partition/partition_snapshot.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

Ref<const PartitionSpace> make_space(std::size_t dim, Codec codec, bool keep_float32,
                                     const GraphOptions& graph, std::uint64_t seed) {
  if (dim > kMaxDim) throw LimitExceededError("dim: must be at most 65536");
  kernels::active();
  return make_ref<const PartitionSpace>(dim, codec, keep_float32, graph, seed);
}

}  // namespace

Engine::Engine(std::size_t dim, Codec codec, bool keep_float32,
               const GraphOptions& graph, std::uint64_t seed)
    : space_(make_space(dim, codec, keep_float32, graph, seed)), partitions_(space_) {}

void Engine::add(PartitionKey key, const RowBatch& batch) {
  Partition::check(batch, dim());
  if (batch.ids.empty()) return;
  add_rows(partitions_.find_or_create(key), batch);
}

std::size_t Engine::remove(PartitionKey key, std::span<const RowId> ids) {
  const auto partition = partitions_.find(key);
  return partition ? remove_rows(partition, ids) : 0;
}

std::vector<std::byte> Engine::snapshot(PartitionKey key,
                                        std::span<const std::byte> tag) const {
  const auto partition = partitions_.find(key);
  if (!partition) return {};
  return PartitionSnapshot::save(*partition, tag);
}

void Engine::restore(PartitionKey key, const SnapshotReader& reader) {
  const auto partition = PartitionSnapshot::restore(reader, space_, key);
  partitions_.put(partition);
  request_links(partition);
}

std::size_t Engine::size(PartitionKey key) const {
  const auto partition = partitions_.find(key);
  if (!partition) return 0;
  const std::shared_lock lock(partition->mutex());
  return partition->size();
}

std::size_t Engine::nbytes_of(PartitionKey key) const {
  const auto partition = partitions_.find(key);
  if (!partition) return 0;
  const std::shared_lock lock(partition->mutex());
  return partition->nbytes();
}

}  // namespace vecall

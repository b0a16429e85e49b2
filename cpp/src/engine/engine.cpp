#include "engine/engine.hpp"

#include <mutex>
#include <shared_mutex>

#include "kernels/dispatch.hpp"
#include "vecall/errors.hpp"

namespace vecall {

Engine::Engine(std::size_t dim) : dim_(dim), partitions_(dim) {
  if (dim > kMaxDim) throw LimitExceededError("dim: must be at most 65536");
  kernels::active();
}

void Engine::add(PartitionKey key, const RowBatch& batch) {
  Partition::check(batch, dim_);
  if (batch.ids.empty()) return;
  const auto partition = partitions_.find_or_create(key);
  const std::unique_lock lock(partition->mutex());
  partition->add(batch);
}

std::size_t Engine::remove(PartitionKey key, std::span<const RowId> ids) {
  const auto partition = partitions_.find(key);
  if (!partition) return 0;
  const std::unique_lock lock(partition->mutex());
  return partition->remove(ids);
}

std::size_t Engine::size(PartitionKey key) const {
  const auto partition = partitions_.find(key);
  if (!partition) return 0;
  const std::shared_lock lock(partition->mutex());
  return partition->size();
}

}  // namespace vecall

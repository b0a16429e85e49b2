#include "partition/partition_map.hpp"

#include <mutex>
#include <vector>

namespace vecall {

std::shared_ptr<Partition> PartitionMap::find(PartitionKey key) const {
  const std::shared_lock lock(mutex_);
  const auto found = partitions_.find(key);
  return found == partitions_.end() ? nullptr : found->second;
}

std::shared_ptr<Partition> PartitionMap::find_or_create(PartitionKey key) {
  if (auto found = find(key)) return found;
  auto made = std::make_shared<Partition>(space_);
  const std::unique_lock lock(mutex_);
  Owned owned{std::string(key.app), std::string(key.user)};
  return partitions_.try_emplace(std::move(owned), std::move(made)).first->second;
}

void PartitionMap::put(PartitionKey key, std::shared_ptr<Partition> partition) {
  Owned owned{std::string(key.app), std::string(key.user)};
  const std::unique_lock lock(mutex_);
  // What is replaced is freed after the lock is.
  std::swap(partitions_.try_emplace(std::move(owned)).first->second, partition);
}

bool PartitionMap::erase(PartitionKey key) {
  std::shared_ptr<Partition> erased;  // freed after the lock is
  const std::unique_lock lock(mutex_);
  const auto found = partitions_.find(key);
  if (found == partitions_.end()) return false;
  erased = std::move(found->second);
  partitions_.erase(found);
  return true;
}

std::size_t PartitionMap::size() const {
  const std::shared_lock lock(mutex_);
  return partitions_.size();
}

std::size_t PartitionMap::nbytes() const {
  std::vector<std::shared_ptr<Partition>> all;
  std::size_t bytes = 0;
  {
    const std::shared_lock lock(mutex_);
    all.reserve(partitions_.size());
    bytes = partitions_.bucket_count() * sizeof(void*);
    for (const auto& [key, partition] : partitions_) {
      bytes += sizeof(key) + key.app.capacity() + key.user.capacity() + 48;
      all.push_back(partition);
    }
  }
  for (const auto& partition : all) {
    const std::shared_lock lock(partition->mutex());
    bytes += partition->nbytes();
  }
  return bytes;
}

}  // namespace vecall

#include "partition/partition_map.hpp"

#include <algorithm>
#include <utility>

#include "sync/fork_gate.hpp"
#include "sync/locks.hpp"

namespace vecall {

PartitionMap::PartitionMap(Ref<const PartitionSpace> space) : space_(std::move(space)) {
  ForkGate::shared();  // forks are seen from the first lock on
}

std::size_t PartitionMap::place_of(PartitionKey key,
                                   std::uint32_t hash) const noexcept {
  const std::size_t mask = partitions_.size() - 1;
  std::size_t at = hash & mask;
  while (partitions_[at] && (hashes_[at] != hash || partitions_[at]->key() != key)) {
    at = (at + 1) & mask;
  }
  return at;
}

void PartitionMap::grow_if_full() {
  if ((size_ + 1) * 4 <= partitions_.size() * 3) return;
  const std::size_t grown = std::max(kSmallest, partitions_.size() * 2);
  std::vector<Ref<Partition>> partitions(grown);
  std::vector<std::uint32_t> hashes(grown);
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    if (!partitions_[i]) continue;
    std::size_t at = hashes_[i] & (grown - 1);
    while (partitions[at]) at = (at + 1) & (grown - 1);
    partitions[at] = std::move(partitions_[i]);
    hashes[at] = hashes_[i];
  }
  partitions_ = std::move(partitions);
  hashes_ = std::move(hashes);
}

Ref<Partition> PartitionMap::find(PartitionKey key) const {
  const std::uint32_t hash = hash_of(key);
  const ReaderLock lock(mutex_);
  if (partitions_.empty()) return {};
  const Ref<Partition>& found = partitions_[place_of(key, hash)];
  if (found) found->mark_used();
  return found;
}

Ref<Partition> PartitionMap::find_or_create(PartitionKey key) {
  if (auto found = find(key)) return found;
  auto made = make_ref<Partition>(space_, key);
  const std::uint32_t hash = hash_of(key);
  const auto pass = ForkGate::enter();
  const WriterLock lock(mutex_);
  grow_if_full();
  const std::size_t at = place_of(key, hash);
  if (!partitions_[at]) {
    partitions_[at] = std::move(made);
    hashes_[at] = hash;
    ++size_;
  }
  return partitions_[at];
}

void PartitionMap::put(Ref<Partition> partition) {
  const std::uint32_t hash = hash_of(partition->key());
  Ref<Partition> replaced;  // freed after the lock is
  const auto pass = ForkGate::enter();
  const WriterLock lock(mutex_);
  grow_if_full();
  const std::size_t at = place_of(partition->key(), hash);
  replaced = std::exchange(partitions_[at], std::move(partition));
  hashes_[at] = hash;
  if (!replaced) ++size_;
}

// Closes the gap (Knuth, "The Art of Computer Programming", volume 3, section 6.4,
// algorithm R).
bool PartitionMap::erase(PartitionKey key) {
  Ref<Partition> erased;  // freed after the lock is
  const auto pass = ForkGate::enter();
  const WriterLock lock(mutex_);
  if (partitions_.empty()) return false;
  const std::size_t mask = partitions_.size() - 1;
  std::size_t hole = place_of(key, hash_of(key));
  if (!partitions_[hole]) return false;
  erased = std::move(partitions_[hole]);
  --size_;
  for (std::size_t at = (hole + 1) & mask; partitions_[at]; at = (at + 1) & mask) {
    if (((at - hashes_[at]) & mask) >= ((at - hole) & mask)) {
      partitions_[hole] = std::move(partitions_[at]);
      hashes_[hole] = hashes_[at];
      hole = at;
    }
  }
  return true;
}

std::vector<Ref<Partition>> PartitionMap::sweep(std::size_t most) {
  std::vector<Ref<Partition>> cold;
  std::size_t left = 0;
  {
    const ReaderLock lock(mutex_);
    most = std::min(most, size_);
    left = 2 * partitions_.size();
  }
  // The second turn of the hand finds again what the first one took.
  std::unordered_set<const Partition*> taken;
  while (left > 0 && cold.size() < most) {
    const std::size_t steps = std::min(left, kSweptAtOnce);
    left -= steps;
    for (auto& partition : sweep_some(steps, most - cold.size(), taken)) {
      cold.push_back(std::move(partition));
    }
  }
  return cold;
}

std::vector<Ref<Partition>> PartitionMap::sweep_some(
    std::size_t steps, std::size_t most, std::unordered_set<const Partition*>& taken) {
  std::vector<Ref<Partition>> found;
  const auto pass = ForkGate::enter();
  const WriterLock hand(hand_mutex_);
  const ReaderLock lock(mutex_);  // marks are atomic: searches go on
  for (; steps > 0 && found.size() < most && !partitions_.empty(); --steps) {
    hand_ = (hand_ + 1) & (partitions_.size() - 1);
    const Ref<Partition>& partition = partitions_[hand_];
    if (!partition || partition->take_used_mark()) continue;
    if (taken.insert(partition.get()).second) found.push_back(partition);
  }
  return found;
}

std::size_t PartitionMap::size() const {
  const ReaderLock lock(mutex_);
  return size_;
}

std::size_t PartitionMap::nbytes() const {
  std::vector<Ref<Partition>> all;
  std::size_t bytes = 0;
  {
    const ReaderLock lock(mutex_);
    all.reserve(size_);
    bytes = sizeof(*this) + partitions_.capacity() * sizeof(Ref<Partition>) +
            hashes_.capacity() * sizeof(std::uint32_t);
    for (const auto& partition : partitions_) {
      if (partition) all.push_back(partition);
    }
  }
  for (const auto& partition : all) {
    const ReaderLock lock(partition->mutex());
    bytes += partition->nbytes();
  }
  return bytes;
}

}  // namespace vecall

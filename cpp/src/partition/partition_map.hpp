#pragma once

// Finds the partition of an (app, user) pair: open addressing over pointers, with the
// hashes beside them so that growing reads no partition. Thread-safe; its lock is held
// only while the partition is looked up, never while one is searched, and is taken
// before a partition's.

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "partition/partition.hpp"
#include "partition/partition_key.hpp"
#include "sync/ref.hpp"
#include "sync/shared_mutex.hpp"
#include "sync/thread_annotations.hpp"

namespace vecall {

class PartitionMap {
 public:
  explicit PartitionMap(Ref<const PartitionSpace> space);

  // Null if there is none. The partition stays alive while the pointer is held, even if
  // it is erased meanwhile.
  [[nodiscard]] Ref<Partition> find(PartitionKey key) const;
  Ref<Partition> find_or_create(PartitionKey key);
  // Replaces what stood under the partition's key.
  void put(Ref<Partition> partition);
  // True if there was one.
  bool erase(PartitionKey key);
  // Up to `most` partitions that were not looked up since the sweep came by last, for a
  // caller who wants their memory: the clock algorithm (Corbato, "A Paging Experiment
  // with the Multics System", 1968). Looks at each partition twice at most, under short
  // holds of the lock that keep no reader out.
  std::vector<Ref<Partition>> sweep(std::size_t most);
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t nbytes() const;

 private:
  static constexpr std::size_t kSmallest = 16;
  static constexpr std::size_t kSweptAtOnce = 4096;  // places under one hold

  // Where the key is, or the empty place where it would be.
  [[nodiscard]] std::size_t place_of(PartitionKey key,
                                     std::uint32_t hash) const noexcept
      VECALL_REQUIRES_SHARED(mutex_);
  void grow_if_full() VECALL_REQUIRES(mutex_);
  // Up to `most` cold partitions that are not among those taken, which they join, of up
  // to `steps` places.
  std::vector<Ref<Partition>> sweep_some(std::size_t steps, std::size_t most,
                                         std::unordered_set<const Partition*>& taken);

  const Ref<const PartitionSpace> space_;
  mutable SharedMutex mutex_;
  // Of one length, a power of two or 0.
  std::vector<Ref<Partition>> partitions_ VECALL_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> hashes_ VECALL_GUARDED_BY(mutex_);
  std::size_t size_ VECALL_GUARDED_BY(mutex_) = 0;
  SharedMutex hand_mutex_;                               // taken before mutex_
  std::size_t hand_ VECALL_GUARDED_BY(hand_mutex_) = 0;  // of the clock
};

}  // namespace vecall

#pragma once

// Reads of a partition under its shared lock, with the caller's hook before what may
// take long. Bindings that hold an interpreter lock keep it for short searches: to
// release it for a few microseconds costs milliseconds at the 99th percentile, because
// a busy thread of the interpreter then holds it for its whole switch interval.

#include <cstddef>
#include <mutex>
#include <shared_mutex>

#include "partition/partition.hpp"
#include "vecall/wait_hook.hpp"

namespace vecall {

// Bytes of codes above which a search is long: about 70 us of work.
inline constexpr std::size_t kLongWork = std::size_t{2} << 20;

// `work` says, under the lock, how many bytes of codes `read` looks at.
template <class Work, class Read>
auto read_shared(const Partition& partition, WaitHook before_wait, Work work,
                 Read read) {
  std::shared_lock lock(partition.mutex(), std::try_to_lock);
  const bool waits = !lock.owns_lock();
  if (waits) {
    before_wait();
    lock.lock();
  }
  if (!waits && work() > kLongWork) before_wait();
  return read();
}

// For reads that are always short.
template <class Read>
auto read_shared(const Partition& partition, WaitHook before_wait, Read read) {
  return read_shared(partition, before_wait, [] { return std::size_t{0}; }, read);
}

}  // namespace vecall

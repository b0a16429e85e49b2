#pragma once

// When the interpreter lock is given away. Releasing it for a few microseconds of work
// costs milliseconds at the 99th percentile, because a busy Python thread then keeps it
// for its whole switch interval; keeping it for long work stops every other thread. So
// short searches keep it, and nobody who holds a partition's lock ever waits for it.

#include <pybind11/pybind11.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "gil_release.hpp"
#include "sync/shared_mutex.hpp"

namespace vecall::bindings {

// Bytes of codes above which a search is long: about 70 us of work.
inline constexpr std::size_t kLongWork = std::size_t{2} << 20;

// Runs `read` under a shared lock; `work` says, under that lock, how many bytes of
// codes it looks at.
template <class Work, class Read>
void with_shared_lock(SharedMutex& mutex, Work work, Read read) {
  std::optional<GilRelease> release;
  std::shared_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    release.emplace();
    lock.lock();
  }
  if (!release && work() > kLongWork) release.emplace();
  read();
  // `lock` was declared last, so it is unlocked before `release` waits for the
  // interpreter.
}

// For work that is always short.
template <class Read>
void with_shared_lock(SharedMutex& mutex, Read read) {
  with_shared_lock(mutex, [] { return std::size_t{0}; }, read);
}

}  // namespace vecall::bindings

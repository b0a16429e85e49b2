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

namespace vecall::bindings {

// Multiply-adds above which a search is long: about 70 us of work.
inline constexpr std::size_t kLongWork = 1'000'000;

// Runs `read` under a shared lock; `work` says, under that lock, how many multiply-adds
// it takes.
template <class Work, class Read>
void with_shared_lock(std::shared_mutex& mutex, Work work, Read read) {
  std::optional<pybind11::gil_scoped_release> release;
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
void with_shared_lock(std::shared_mutex& mutex, Read read) {
  with_shared_lock(mutex, [] { return std::size_t{0}; }, read);
}

}  // namespace vecall::bindings

#pragma once

// A shared mutex of four bytes that lets a waiting writer go before new readers, where
// std::shared_mutex takes 56 and lets overlapping readers keep a writer out for good.
// When a writer leaves, waiting readers and writers compete as equals, so neither side
// starves. Meets the requirements of std::shared_lock and std::unique_lock.
//
// In a child of fork it is free: the threads that held or awaited it are the parent's
// alone. What they left in the state counts for nothing, as it has the number of
// another process. What a writer guards must be whole when a process forks:
// fork_gate.hpp sees to that.

#include <atomic>
#include <cstdint>

#include "sync/thread_annotations.hpp"

namespace vecall {

class VECALL_CAPABILITY("mutex") SharedMutex {
 public:
  SharedMutex() = default;
  ~SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  bool try_lock() noexcept VECALL_TRY_ACQUIRE(true) {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    return (current(state) & ~kProcess) == 0 &&
           state_.compare_exchange_strong(state, process() | kWriter,
                                          std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  void lock() noexcept VECALL_ACQUIRE() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t now = current(state);
      if ((now & (kWriter | kReaders)) == 0) {
        if (state_.compare_exchange_weak(state, process() | kWriter,
                                         std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
          return;
        }
      } else if ((now & kWaiting) == 0) {
        state_.compare_exchange_weak(state, now | kWaiting, std::memory_order_relaxed);
      } else {
        state_.wait(state, std::memory_order_relaxed);
        state = state_.load(std::memory_order_relaxed);
      }
    }
  }

  void unlock() noexcept VECALL_RELEASE() {
    state_.store(process(), std::memory_order_release);
    state_.notify_all();
  }

  bool try_lock_shared() noexcept VECALL_TRY_ACQUIRE_SHARED(true) {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t now = current(state);
      if ((now & (kWriter | kWaiting)) != 0) return false;
      if (state_.compare_exchange_weak(state, now + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  void lock_shared() noexcept VECALL_ACQUIRE_SHARED() {
    while (!try_lock_shared()) {
      const std::uint32_t state = state_.load(std::memory_order_relaxed);
      if ((current(state) & (kWriter | kWaiting)) != 0) {
        state_.wait(state, std::memory_order_relaxed);
      }
    }
  }

  void unlock_shared() noexcept VECALL_RELEASE_SHARED() {
    // The last reader wakes whoever waits.
    const std::uint32_t before = state_.fetch_sub(1, std::memory_order_release);
    if ((before & ~kProcess) == (kWaiting | 1)) state_.notify_all();
  }

  // Tell clang's analysis that the caller holds it alone, or shared; do nothing.
  void assert_held() const noexcept VECALL_ASSERT_CAPABILITY(this) {}
  void assert_shared_held() const noexcept VECALL_ASSERT_SHARED_CAPABILITY(this) {}

  // Makes every mutex of this process free. Only for a child of fork, before it has a
  // second thread.
  static void free_all_after_fork() noexcept {
    const std::uint32_t next = (process() + kOneProcess) & kProcess;
    process_.store(next, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kWriter = std::uint32_t{1} << 31;
  static constexpr std::uint32_t kWaiting = std::uint32_t{1} << 30;  // a writer waits
  static constexpr std::uint32_t kOneProcess = std::uint32_t{1} << 20;
  static constexpr std::uint32_t kReaders = kOneProcess - 1;  // how many there are
  // The number of the process: how many forks lie between it and the first one.
  static constexpr std::uint32_t kProcess = kWaiting - kOneProcess;

  static std::uint32_t process() noexcept {
    return process_.load(std::memory_order_relaxed);
  }
  // A state without what another process left in it.
  static std::uint32_t current(std::uint32_t state) noexcept {
    return (state & kProcess) == process() ? state : process();
  }

  inline static std::atomic<std::uint32_t> process_{0};

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace vecall

#pragma once

// A shared mutex of four bytes that lets a waiting writer go before new readers, where
// std::shared_mutex takes 56 and lets overlapping readers keep a writer out for good.
// When a writer leaves, waiting readers and writers compete as equals, so neither side
// starves. Meets the requirements of std::shared_lock and std::unique_lock.

#include <atomic>
#include <cstdint>

namespace vecall {

class SharedMutex {
 public:
  SharedMutex() = default;
  ~SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  bool try_lock() noexcept {
    std::uint32_t free = 0;
    return state_.compare_exchange_strong(free, kWriter, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  void lock() noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      if ((state & ~kWaiting) == 0) {
        if (state_.compare_exchange_weak(state, kWriter, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
          return;
        }
      } else if ((state & kWaiting) == 0) {
        state_.compare_exchange_weak(state, state | kWaiting,
                                     std::memory_order_relaxed);
      } else {
        state_.wait(state, std::memory_order_relaxed);
        state = state_.load(std::memory_order_relaxed);
      }
    }
  }

  void unlock() noexcept {
    state_.store(0, std::memory_order_release);
    state_.notify_all();
  }

  bool try_lock_shared() noexcept {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    while ((state & (kWriter | kWaiting)) == 0) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void lock_shared() noexcept {
    while (!try_lock_shared()) {
      const std::uint32_t state = state_.load(std::memory_order_relaxed);
      if ((state & (kWriter | kWaiting)) != 0) {
        state_.wait(state, std::memory_order_relaxed);
      }
    }
  }

  void unlock_shared() noexcept {
    // The last reader wakes whoever waits.
    if (state_.fetch_sub(1, std::memory_order_release) == (kWaiting | 1)) {
      state_.notify_all();
    }
  }

 private:
  static constexpr std::uint32_t kWriter = std::uint32_t{1} << 31;
  static constexpr std::uint32_t kWaiting = std::uint32_t{1} << 30;  // a writer waits

  std::atomic<std::uint32_t> state_{0};  // the rest counts readers
};

}  // namespace vecall

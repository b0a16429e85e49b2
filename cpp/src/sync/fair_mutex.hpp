#pragma once

// A mutex that threads get in the order in which they ask for it. With std::mutex a
// thread that takes it again and again keeps the others out for as long as it likes:
// they are woken after it has it again. Meets the requirements of std::lock_guard.
//
// Only for holders that are in the ForkGate, who all ask there too: a child of fork
// would wait for the parent's threads.

#include <atomic>
#include <cstdint>

namespace vecall {

class FairMutex {
 public:
  void lock() noexcept {
    const std::uint32_t turn = last_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t now = turn_.load(std::memory_order_acquire);
      if (now == turn) return;
      turn_.wait(now, std::memory_order_relaxed);
    }
  }
  void unlock() noexcept {
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
  }
  // Whether another thread waits for it. REQUIRES: this one holds it.
  [[nodiscard]] bool is_wanted() const noexcept {
    return last_.load(std::memory_order_relaxed) -
               turn_.load(std::memory_order_relaxed) >
           1;
  }

 private:
  std::atomic<std::uint32_t> last_{0};  // the turn of the next thread that asks
  std::atomic<std::uint32_t> turn_{0};  // of the thread that has it
};

}  // namespace vecall

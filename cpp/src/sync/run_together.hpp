#pragma once

// Work that some threads share for the length of a call: they are started for it and
// joined at its end, so that none is left for a child of fork to miss.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "vecall/assert.hpp"

namespace vecall {

// Threads that are joined at the end of the scope. libc++ has no std::jthread
// before 20.
class Helpers {
 public:
  explicit Helpers(std::size_t most) { threads_.reserve(most); }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
  }

  // Whether the system had a thread to spare, and memory for it.
  template <typename Work>
  bool start(const Work& work, std::size_t number) {
    VECALL_ASSERT(threads_.size() < threads_.capacity());  // a started one is kept
    try {
      threads_.emplace_back(work, number);
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

 private:
  std::vector<std::thread> threads_;
};

// How many threads a call uses that may use so many: at most one a processor.
inline std::size_t threads_for(std::size_t wanted) noexcept {
  const std::size_t processors = std::thread::hardware_concurrency();
  return std::max<std::size_t>(1, std::min(wanted, processors));
}

// Calls work(number) on `count` threads, of which the caller is number 0, or on fewer
// where the system has none to spare. Throws what one of them threw once all have
// ended.
template <typename Work>
void run_together(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  const auto help = [&](std::size_t number) {
    try {
      work(number);
    } catch (...) {
      failures[number] = std::current_exception();
    }
  };
  {
    Helpers helpers(count - 1);
    std::size_t started = 1;
    while (started < count && helpers.start(help, started)) ++started;
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace vecall

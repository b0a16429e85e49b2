// FairMutex is for one thread at a time, in the order in which they ask.

#include "sync/fair_mutex.hpp"

#include <doctest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace vecall::testing {

TEST_CASE("FairMutex has one holder at a time") {
  FairMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 500; ++turn) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 2'000);
}

TEST_CASE("who asks for FairMutex gets it before its holder gets it again") {
  FairMutex mutex;
  std::atomic<int> holds{0};
  int holds_of_other = -1;
  mutex.lock();
  CHECK_FALSE(mutex.is_wanted());
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    holds_of_other = holds;
  });
  while (!mutex.is_wanted()) std::this_thread::yield();
  for (; holds < 100; ++holds) {
    mutex.unlock();
    mutex.lock();
  }
  mutex.unlock();
  other.join();
  CHECK(holds_of_other == 0);
}

}  // namespace vecall::testing

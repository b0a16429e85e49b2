// A fork waits for changes in progress, and a child may change what its parent had.

#include "sync/fork_gate.hpp"

#include <doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine_support.hpp"

namespace vecall::testing {

namespace {

// What the child of a fork returns.
template <class Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a fork comes after the changes that had begun") {
  for (int turn = 0; turn < 5; ++turn) {
    std::atomic<bool> begun{false};
    std::atomic<int> half{0};
    std::thread changer([&] {
      const auto pass = ForkGate::enter();
      half = 1;
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      half = 2;
    });
    while (!begun) std::this_thread::yield();
    CHECK(in_child([&] { return half.load(); }) == 2);
    changer.join();
  }
}

TEST_CASE("a child changes a partition that a thread of its parent was adding to") {
  constexpr std::size_t kDim = 40;
  constexpr std::size_t kRows =
      3'000;  // of a call: its codes are copied without a lock
  Partition partition(make_space(kDim));
  Rows large(kDim);
  for (std::size_t i = 0; i < kRows; ++i) {
    large.vector(static_cast<RowId>(100 + i), i % 50);
  }
  const RowBatch batch = large.batch();
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) partition.add(batch);
  });
  for (int turn = 0; turn < 10; ++turn) {
    const int rows = in_child([&] {
      Rows one(kDim);
      one.vector(1, 77);
      partition.add(one.batch());
      const auto hits = search(partition, unit_vector(77, kDim), 1);
      const std::size_t size = partition.size();
      const bool whole = size == 1 || size == kRows + 1;
      return whole && hits.size() == 1 && hits[0].id == 1 ? 7 : 1;
    });
    CHECK(rows == 7);
  }
  over = true;
  writer.join();
}

}  // namespace vecall::testing

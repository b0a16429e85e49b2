// When a search calls the hook of its caller: before it waits for a lock that another
// thread holds, and before long work; never otherwise, and never twice.

#include "vecall/wait_hook.hpp"

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/shared_read.hpp"
#include "engine_support.hpp"
#include "vecall/index.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;

Ref<Partition> partition_of(std::size_t rows) {
  auto partition = make_ref<Partition>(make_space(kDim));
  Rows batch(kDim);
  for (std::size_t i = 0; i < rows; ++i) batch.vector(static_cast<RowId>(i), i);
  partition->add(batch.batch());
  return partition;
}

}  // namespace

TEST_CASE("a long search calls the hook once, a short one never") {
  int calls = 0;
  const auto hook = [&calls] { ++calls; };
  std::vector<Hit> hits;
  const Vector query = unit_vector(1, kDim);
  std::vector<RowId> ids(100);
  std::iota(ids.begin(), ids.end(), RowId{0});
  Index small(kDim);
  small.add(ids, std::vector<float>(ids.size() * kDim, 1.0F));
  small.search(query, {}, hits, WaitHook(hook));
  CHECK(calls == 0);
  CHECK(hits.size() == 10);
  // A row takes 32 bytes of codes: more than 2 MiB of them.
  Options options;
  options.graph.kind = IndexKind::kFlat;
  Index index(kDim, options);
  constexpr std::size_t kRows = 70'000;
  ids.resize(kRows);
  std::iota(ids.begin(), ids.end(), RowId{0});
  index.add(ids, std::vector<float>(kRows * kDim, 1.0F));
  index.search(query, {}, hits, WaitHook(hook));
  CHECK(calls == 1);
  CHECK(hits.size() == 10);
}

TEST_CASE("a search calls the hook once before it waits for a writer") {
  const auto partition = partition_of(100);
  const Vector query = unit_vector(17, kDim);
  for (const bool is_long : {false, true}) {
    CAPTURE(is_long);
    std::atomic<int> calls = 0;
    std::atomic<bool> has_read = false;
    std::promise<void> first_call;
    std::vector<Hit> hits;
    const auto hook = [&calls, &first_call] {
      if (calls.fetch_add(1) == 0) first_call.set_value();
    };
    std::thread reader;
    {
      const WriterLock writer(partition->mutex());
      reader = std::thread([&] {
        SharedRead read(*partition, WaitHook(hook));
        has_read = true;
        read.expect(is_long ? std::size_t{1} << 30 : partition->search_bytes(64));
        partition->search({query, 10, 64, false, {}}, hits);
      });
      // The time limit only ends a test that fails: a reader that calls no hook waits
      // until the lock is free.
      CHECK(first_call.get_future().wait_for(std::chrono::seconds(30)) ==
            std::future_status::ready);
      CHECK_FALSE(has_read);
    }
    reader.join();
    CHECK(has_read);
    CHECK(calls == 1);
    REQUIRE(hits.size() == 10);
    CHECK(hits[0].id == 17);
  }
}

TEST_CASE("a search beside another reader calls no hook") {
  const auto partition = partition_of(100);
  int calls = 0;
  const auto hook = [&calls] { ++calls; };
  const ReaderLock other(partition->mutex());
  std::thread reader([&] {
    SharedRead read(*partition, WaitHook(hook));
    read.expect(partition->search_bytes(64));
  });
  reader.join();
  CHECK(calls == 0);
}

}  // namespace vecall::testing

// The background thread links what it is asked to, and forgets who has gone.

#include "partition/background_linker.hpp"

#include <doctest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "engine_support.hpp"
#include "partition/encoded_batch.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;

std::size_t linked(const Partition& partition) {
  const ReaderLock lock(partition.mutex());
  return partition.linked();
}

bool soon(const std::function<bool()>& holds) {
  for (int waits = 0; waits < 20'000; ++waits) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Ref<Partition> filled(std::size_t rows) {
  GraphOptions graph;
  graph.kind = IndexKind::kHnsw;
  graph.m = 4;
  graph.ef_construction = 10;
  auto partition = make_ref<Partition>(make_space(kDim, graph));
  Rows batch(kDim);
  for (std::size_t i = 0; i < rows; ++i) batch.vector(static_cast<RowId>(i), i);
  partition->add(batch.batch());
  return partition;
}

}  // namespace

TEST_CASE("partitions that wait are linked, however often they were asked for") {
  std::vector<Ref<Partition>> partitions;
  for (std::size_t i = 0; i < 8; ++i) partitions.push_back(filled(40 + i));
  for (int turn = 0; turn < 3; ++turn) {
    for (const auto& partition : partitions) request_links(partition);
  }
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    CHECK(soon([&] { return linked(*partitions[i]) == 40 + i; }));
    const ReaderLock lock(partitions[i]->mutex());
    CHECK_FALSE(partitions[i]->has_links_to_make());
  }
}

TEST_CASE("rows that are added or removed later are linked too") {
  const auto partition = filled(30);
  request_links(partition);
  Rows more(kDim);
  for (std::size_t i = 0; i < 25; ++i)
    more.vector(static_cast<RowId>(100 + i), 200 + i);
  const RowBatch batch = more.batch();
  add_rows(partition, EncodedBatch(make_space(kDim)->rows, batch));
  CHECK(remove_rows(partition, std::vector<RowId>{1, 2, 999}) == 2);
  CHECK(soon([&] { return linked(*partition) == 53; }));
}

TEST_CASE("a partition that nobody else has is let go") {
  // The others behind it in the queue get their turn.
  for (int turn = 0; turn < 20; ++turn) {
    auto gone = filled(60);
    const auto kept = filled(20);
    request_links(gone);
    request_links(kept);
    gone = {};
    CHECK(soon([&] { return linked(*kept) == 20; }));
  }
}

}  // namespace vecall::testing

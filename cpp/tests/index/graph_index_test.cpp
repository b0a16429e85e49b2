// A graph is linked row by row or slice by slice, to the same end.

#include "index/graph_index.hpp"

#include <doctest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "engine_support.hpp"
#include "partition/partition_snapshot.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;

Ref<const PartitionSpace> space() {
  GraphOptions graph;
  graph.kind = IndexKind::kHnsw;
  graph.m = 4;
  graph.ef_construction = 10;
  return make_space(kDim, graph);
}

Rows rows_from(RowId begin, RowId end, std::uint64_t version = 0) {
  Rows rows(kDim);
  for (RowId id = begin; id < end; ++id) {
    rows.vector(id, static_cast<std::uint64_t>(id) + 1'000 * version);
  }
  return rows;
}

std::size_t link_all(Partition& partition, std::size_t most) {
  std::size_t calls = 1;
  while (partition.link_some(most)) ++calls;
  return calls;
}

}  // namespace

TEST_CASE("a graph is the same however few rows a call links") {
  std::vector<std::vector<std::byte>> saved;
  for (const std::size_t most : {1'000U, 32U, 7U, 1U}) {
    Partition partition(space());
    partition.add(rows_from(0, 150));
    const std::size_t calls = link_all(partition, most);
    CHECK((most > 1 || calls >= 150));
    partition.remove(std::vector<RowId>{3, 50, 119});
    partition.add(rows_from(140, 190, 1));  // a tail, some of it in slots of others
    link_all(partition, most);
    saved.push_back(PartitionSnapshot::save(partition, {}));
    CHECK(saved.back() == saved.front());
  }
}

TEST_CASE("a graph is the same however many threads link it") {
  std::vector<std::byte> by_one;
  for (const std::size_t threads : {1U, 2U, 3U, 7U}) {
    Partition partition(space());
    std::vector<GraphLinker> linkers(threads);
    const auto link = [&] {
      while (partition.link_some(linkers)) {
      }
    };
    partition.add(rows_from(0, 1'300));
    link();
    partition.remove(std::vector<RowId>{3, 50, 119});
    partition.add(rows_from(900, 1'600, 1));  // a tail, some of it in slots of others
    link();
    const auto saved = PartitionSnapshot::save(partition, {});
    if (by_one.empty()) by_one = saved;
    CHECK(saved == by_one);
  }
}

TEST_CASE("a snapshot in the middle of a slice comes back with every row") {
  const auto shared = space();
  Partition partition(shared);
  partition.add(rows_from(0, 60));
  link_all(partition, 1);
  partition.add(rows_from(40, 100, 1));
  for (int row = 0; row < 10; ++row) REQUIRE(partition.link_some(1));
  const auto bytes = PartitionSnapshot::save(partition, {});
  const auto restored = PartitionSnapshot::restore(SnapshotReader(bytes), shared);
  link_all(*restored, 5);
  link_all(partition, 5);
  for (std::uint64_t id = 0; id < 100; ++id) {
    const Vector query = unit_vector(id < 40 ? id : id + 1'000, kDim);
    CHECK(search(*restored, query, 1).front().id == static_cast<RowId>(id));
    CHECK(search(partition, query, 1).front().id == static_cast<RowId>(id));
  }
}

TEST_CASE("rows that come and go while a slice is half linked are found or not") {
  Partition partition(space());
  partition.add(rows_from(0, 100));
  for (int row = 0; row < 10; ++row) REQUIRE(partition.link_some(1));
  partition.remove(std::vector<RowId>{2, 11, 12, 60});
  partition.add(rows_from(5, 20, 1));
  link_all(partition, 1);
  partition.add(rows_from(100, 140));
  for (int row = 0; row < 10; ++row) REQUIRE(partition.link_some(1));
  partition.remove(std::vector<RowId>{101, 110, 111});
  partition.add(rows_from(104, 120, 1));
  link_all(partition, 3);
  for (RowId id = 0; id < 140; ++id) {
    const bool is_new = (id >= 5 && id < 20) || (id >= 104 && id < 120);
    const bool is_gone = id == 2 || id == 60 || id == 101;
    const auto number = static_cast<std::uint64_t>(id) + (is_new ? 1'000 : 0);
    const auto hits = search(partition, unit_vector(number, kDim), 1);
    CHECK((hits.front().id == id) == !is_gone);
  }
  const ReaderLock lock(partition.mutex());
  CHECK(partition.linked() == partition.size());
}

TEST_CASE("rows are searched, added and removed while threads link") {
  Partition partition(space());
  partition.add(rows_from(0, 900));
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  std::thread linking([&] {
    std::vector<GraphLinker> linkers(3);
    while (!stop) {
      while (partition.link_some(linkers)) {
      }
    }
  });
  std::thread searching([&] {
    for (std::uint64_t id = 0; !stop; id = (id + 1) % 200) {
      const auto hits = search(partition, unit_vector(id, kDim), 1);
      if (hits.front().id != static_cast<RowId>(id)) ++missed;
    }
  });
  for (RowId turn = 0; turn < 12; ++turn) {
    const RowId begin = 300 + 100 * turn;
    partition.add(rows_from(begin, begin + 400, static_cast<std::uint64_t>(turn)));
    const WriterLock lock(partition.mutex());
    partition.remove(std::vector<RowId>{begin + 7, begin + 8, begin + 250});
  }
  stop = true;
  linking.join();
  searching.join();
  CHECK(missed == 0);
  link_all(partition, 50);
  const ReaderLock lock(partition.mutex());
  CHECK(partition.linked() == partition.size());
}

}  // namespace vecall::testing

// Memory that runs out in the middle of an addition, at each allocation in turn.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>

#include "engine_support.hpp"
#include "partition/background_linker.hpp"
#include "partition/encoded_batch.hpp"

namespace {

// Allocations of this thread that still succeed; negative: all do. The background
// thread of a partition is not to be disturbed.
std::atomic<long> left_to_new_threads = -1;
thread_local long left = left_to_new_threads;
std::atomic<bool> was_refused = false;

bool refuse() noexcept {
  if (left < 0) return false;
  if (left == 0) {
    was_refused = true;
    return true;
  }
  --left;
  return false;
}

}  // namespace

#if VECALL_TESTS_WRAP_MALLOC
// The linker leads the calls of malloc and posix_memalign in this program here, those
// of the core among them; `new` below gets its memory from malloc, so it counts once.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
void* __real_malloc(std::size_t bytes);
int __real_posix_memalign(void** out, std::size_t alignment, std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) {
  return refuse() ? nullptr : __real_malloc(bytes);
}
int __wrap_posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  return refuse() ? 12 : __real_posix_memalign(out, alignment, bytes);  // ENOMEM
}
}
// NOLINTEND(bugprone-reserved-identifier)
#endif

void* operator new(std::size_t bytes) {
#if !VECALL_TESTS_WRAP_MALLOC
  if (refuse()) throw std::bad_alloc();
#endif
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
// A stable sort asks for its room like this, and does without where there is none.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr TermHash kWords[] = {1, 2, 3, 104, 5000};

// The answers to many queries, as numbers.
std::vector<double> answers(const Partition& partition) {
  std::vector<double> all = {static_cast<double>(partition.size())};
  for (RowId id = -3; id < 600; ++id) all.push_back(partition.contains(id) ? 1 : 0);
  for (const std::uint64_t number : {0U, 7U, 400U}) {
    const Vector query = unit_vector(number, kDim);
    for (const Hit& hit : search(partition, query, 20)) {
      all.insert(all.end(), {static_cast<double>(hit.id), hit.score});
    }
    for (const auto& query_vector :
         {std::span<const float>(query), std::span<const float>()}) {
      for (const RecallHit& hit : recall(partition, query_vector, kWords, 20)) {
        const double similarity = std::isnan(hit.similarity) ? -9 : hit.similarity;
        all.insert(all.end(),
                   {static_cast<double>(hit.id), hit.score, similarity, hit.lexical});
      }
    }
  }
  return all;
}

// The mean of the cosines is summed slot by slot, so a row that came to another slot
// may change the last bits of a fused score.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) > 2e-6) return false;
  }
  return true;
}

RowMeta meta_of(RowId id, bool expires) {
  RowMeta meta;
  meta.time = id;
  meta.session = static_cast<SessionKey>(id % 9);
  meta.position = static_cast<double>(id / 9);
  meta.author = static_cast<LabelHash>(id % 4);
  meta.kind = static_cast<LabelHash>(id % 3);
  if (expires && id % 2 == 0) meta.expires = 1'000'000 + id;
  return meta;
}

struct Rich {
  bool meta = true;
  bool expires = false;
};

Rows rows_from(RowId begin, RowId end, Rich rich, std::uint64_t version = 0) {
  Rows rows(kDim);
  for (RowId id = begin; id < end; ++id) {
    const auto number = static_cast<std::uint64_t>(id);
    rows.vector(id, number + 1000 * version);
    if (rich.meta) {
      rows.meta(meta_of(id, rich.expires),
                {1 + number % 3, 100 + number, 1, 5000 + version});
    }
  }
  return rows;
}

// Adds `batch` to what `make` makes, with ever more allocations that succeed. After
// each failure nothing has changed, and what follows works as if it had not been tried.
void run_out(const std::function<void(Partition&)>& make, const RowBatch& batch,
             const GraphOptions& graph = {}) {
  const auto space = make_space(kDim, graph);
  Partition control(space);
  make(control);
  const auto before = answers(control);
  std::vector<RowId> some;
  for (RowId id = 0; id < 600; id += 7) some.push_back(id);
  const std::size_t removed = control.remove(some);
  const auto after_remove = answers(control);
  control.add(batch);
  const auto at_end = answers(control);
  for (long allocations = 0;; ++allocations) {
    REQUIRE(allocations < 20'000);
    CAPTURE(allocations);
    Partition partition(space);
    make(partition);
    bool failed = false;
    was_refused = false;
    left = allocations;
    try {
      partition.add(batch);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    left = -1;
    REQUIRE((was_refused || !failed));
    if (!was_refused) break;
    if (!failed) continue;  // it could do without
    REQUIRE(same(answers(partition), before));
    REQUIRE(partition.remove(some) == removed);
    REQUIRE(same(answers(partition), after_remove));
    partition.add(batch);
    REQUIRE(same(answers(partition), at_end));
    while (partition.link_some()) {
    }
    REQUIRE(partition.size() == control.size());
  }
}

void nothing(Partition&) {}

}  // namespace

TEST_CASE("an addition to an empty partition that fails leaves it empty") {
  run_out(nothing, rows_from(0, 12, {.expires = true}));
  run_out(nothing, rows_from(0, 12, {.meta = false}));
}

TEST_CASE("an addition that fails half-way changes nothing of many rows") {
  // Some rows are replaced, and the table of ids grows.
  const auto make = [](Partition& partition) { partition.add(rows_from(0, 250, {})); };
  run_out(make, rows_from(240, 262, {}, 1));
}

TEST_CASE("the first rows that expire come or they do not") {
  const auto make = [](Partition& partition) { partition.add(rows_from(0, 40, {})); };
  run_out(make, rows_from(30, 50, {.expires = true}, 1));
}

TEST_CASE("bare vectors get times, sessions and words or they do not") {
  const auto make = [](Partition& partition) {
    partition.add(rows_from(0, 60, {.meta = false}));
  };
  run_out(make, rows_from(50, 70, {.expires = true}, 1));
}

TEST_CASE("a partition begins a graph or it does not") {
  GraphOptions graph;
  graph.m = 4;
  graph.ef_construction = 10;
  graph.flat_bytes = 45 * 32;  // a row's plane has 32 bytes
  const auto make = [](Partition& partition) {
    partition.add(rows_from(0, 40, {}));
    while (partition.link_some()) {
    }
  };
  run_out(make, rows_from(30, 50, {}, 1), graph);
  graph.kind = IndexKind::kHnsw;
  run_out(make, rows_from(30, 50, {}, 1), graph);
}

TEST_CASE("rows that are in are linked, at whichever allocation the linker fails") {
  GraphOptions graph;
  graph.kind = IndexKind::kHnsw;
  const auto space = make_space(kDim, graph);
  const Rows batch = rows_from(0, 10, {});
  for (long allocations = 0;; ++allocations) {
    REQUIRE(allocations < 20'000);
    CAPTURE(allocations);
    const auto partition = make_ref<Partition>(space);
    bool failed = false;
    was_refused = false;
    left = allocations;
    try {
      add_rows(partition, EncodedBatch(space->rows, batch));
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    left = -1;
    REQUIRE(partition->size() == (failed ? 0U : 10U));
    if (failed) add_rows(partition, EncodedBatch(space->rows, batch));
    const auto linked = [&] {
      const ReaderLock lock(partition->mutex());
      return partition->linked();
    };
    for (int waits = 0; waits < 20'000 && linked() < 10; ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(linked() == 10);
    if (!was_refused) break;
  }
}

TEST_CASE("rows are linked by threads, at whichever allocation one of them fails") {
  GraphOptions graph;
  graph.kind = IndexKind::kHnsw;
  constexpr std::size_t kRows = 50;
  const Rows batch = rows_from(0, kRows, {.meta = false});
  bool done = false;
  for (long allocations = 0; !done; ++allocations) {
    REQUIRE(allocations < 2'000);
    CAPTURE(allocations);
    Partition partition(make_space(kDim, graph));
    partition.add(batch);
    std::vector<GraphLinker> linkers(3);
    bool failed = false;
    was_refused = false;
    left_to_new_threads = allocations;
    left = allocations;
    try {
      while (partition.link_some(linkers)) {
      }
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    left = -1;
    left_to_new_threads = -1;
    REQUIRE((was_refused || !failed));
    done = !was_refused;
    while (partition.link_some(linkers)) {
    }
    const ReaderLock lock(partition.mutex());
    REQUIRE(partition.linked() == kRows);
  }
}

TEST_CASE("a search that finds no memory throws, and finds its rows the next time") {
  Partition partition(make_space(kDim));
  partition.add(rows_from(0, 150, {}));
  const Vector query = unit_vector(7, kDim);
  for (const std::size_t k : {5, 100}) {  // scored one by one, and in whole blocks
    const auto expected = search(partition, query, k);
    bool done = false;
    // Each in a thread of its own, whose scratch is empty.
    for (long allocations = 0; !done; ++allocations) {
      REQUIRE(allocations < 1'000);
      CAPTURE(allocations);
      bool failed = false;
      std::vector<Hit> found;
      std::thread([&] {
        was_refused = false;
        left = allocations;
        try {
          found = search(partition, query, k);
        } catch (const std::bad_alloc&) {
          failed = true;
        }
        left = -1;
        done = !was_refused;
        if (failed) found = search(partition, query, k);
      }).join();
      REQUIRE((failed || done));
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        REQUIRE(found[i].id == expected[i].id);
        REQUIRE(found[i].score == expected[i].score);
      }
    }
  }
}

TEST_CASE("chunks are added together or not at all") {
  const auto make = [](Partition& partition) {
    RowBatch batch;
    for (RowId id = 1000; id < 1000 + 4090; ++id) batch.ids.push_back(id);
    partition.add(batch);
    partition.add(rows_from(0, 3, {}));
  };
  run_out(make, rows_from(0, 20, {.expires = true}, 1));
}

}  // namespace vecall::testing

// A graph that is built by slices while rows come and go: it has every row, and knows
// which of its slots hold another row since.

#include "index/graph_builder.hpp"

#include <doctest.h>

#include <algorithm>
#include <vector>

#include "index/index_support.hpp"
#include "vectors/row_image.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr std::uint32_t kLinks = 8;
constexpr std::uint32_t kBreadth = 40;
constexpr std::size_t kSlice = 32;

bool end_slice(GraphBuilder& builder, const RowTable& rows) {
  while (!builder.end_slice(rows, 7)) continue;
  return builder.is_whole(rows);
}

// Links up to `most` rows; true if the graph is whole.
bool build_slice(GraphBuilder& builder, const RowTable& rows, GraphLinker& linker,
                 std::size_t most = kSlice) {
  LinkBatch batch;
  builder.begin_slice(rows, most, batch);
  link_batch(batch, builder.graph(), rows, linker, kBreadth);
  return end_slice(builder, rows);
}

// Whether a search for the row's own vector can begin at it.
bool is_entrance(const Graph& graph, const RowTable& rows, Slot slot) {
  EncodedQuery query;
  const Vector unit = unit_vector(static_cast<std::uint64_t>(rows.id(slot)), kDim);
  query.encode(rows.space(), unit);
  RowImage image;
  image.make(rows.space(), query);
  bool found = false;
  graph.copies().find(rows, image, [&](Slot other) {
    found = found || other == slot;
    return !found;
  });
  return found;
}

}  // namespace

TEST_CASE("a graph of no rows is whole at once") {
  VectorRows rows(kDim);
  GraphBuilder builder;
  GraphLinker linker;
  CHECK_FALSE(builder.is_building());
  builder.begin(kLinks);
  CHECK(builder.is_building());
  CHECK(build_slice(builder, rows.table(), linker));
  const GraphBuilder::Built built = builder.finish(rows.table());
  CHECK_FALSE(builder.is_building());
  CHECK(built.graph->entry().slot == kNoSlot);
  CHECK(built.stale.empty());
}

TEST_CASE("a whole graph has every row with a vector, and searches begin at each") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < 200; ++i) {
    if (i % 7 == 3 || i >= 190) {
      rows.add_without_vector(i);
    } else {
      rows.add(i);
    }
  }
  GraphBuilder builder;
  GraphLinker linker;
  builder.begin(kLinks);
  int slices = 1;
  while (!build_slice(builder, rows.table(), linker)) ++slices;
  CHECK(slices == 6);  // 163 rows
  const GraphBuilder::Built built = builder.finish(rows.table());
  CHECK(built.stale.empty());
  for (Slot slot = 0; slot < 200; ++slot) {
    REQUIRE(built.graph->is_linked(slot) == rows.table().has_vector(slot));
    if (rows.table().has_vector(slot)) {
      REQUIRE(is_entrance(*built.graph, rows.table(), slot));
    }
  }
}

TEST_CASE("slots below the cursor that get another row are stale, others are linked") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < 100; ++i) rows.add(i);
  GraphBuilder builder;
  GraphLinker linker;
  builder.reserve(1);  // nothing is built: these do nothing
  builder.on_vector(5);
  builder.begin(kLinks);
  REQUIRE_FALSE(build_slice(builder, rows.table(), linker));
  // 0 is in the graph, 32 is the next to be linked, 99 comes later.
  for (const Slot slot : {Slot{0}, Slot{32}, Slot{99}}) {
    builder.on_remove(slot, rows.table());
    rows.table().release(slot);
    builder.reserve(1);
    REQUIRE(rows.add(1'000 + slot) == slot);
    builder.on_vector(slot);
  }
  builder.reserve(1);
  REQUIRE(rows.add(2'000) == 100);
  builder.on_vector(100);  // a new slot, above the cursor
  CHECK(builder.stale() == 1);
  while (!build_slice(builder, rows.table(), linker)) continue;
  const GraphBuilder::Built built = builder.finish(rows.table());
  CHECK(built.stale == std::vector<Slot>{0});
  CHECK(builder.stale() == 0);
  CHECK(built.graph->is_linked(0));
  CHECK_FALSE(is_entrance(*built.graph, rows.table(), 0));  // of its new row
  for (const Slot slot : {Slot{32}, Slot{99}, Slot{100}}) {
    CHECK(is_entrance(*built.graph, rows.table(), slot));
  }
}

TEST_CASE("a removed row is no entrance, and begin() forgets what was stale") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < 40; ++i) rows.add(i);
  GraphBuilder builder;
  GraphLinker linker;
  builder.begin(kLinks);
  REQUIRE_FALSE(build_slice(builder, rows.table(), linker));
  builder.reserve(1);
  builder.on_vector(3);
  builder.begin(kLinks);
  CHECK(builder.stale() == 0);
  REQUIRE_FALSE(build_slice(builder, rows.table(), linker));
  builder.on_remove(7, rows.table());
  CHECK(builder.is_building());
  REQUIRE(build_slice(builder, rows.table(), linker));
  const GraphBuilder::Built built = builder.finish(rows.table());
  CHECK_FALSE(is_entrance(*built.graph, rows.table(), 7));
  CHECK(is_entrance(*built.graph, rows.table(), 8));
}

TEST_CASE("rows that come during a slice wait for the next") {
  VectorRows rows(kDim);
  rows.add(0);
  GraphBuilder builder;
  GraphLinker linker;
  builder.begin(kLinks);
  LinkBatch batch;
  builder.begin_slice(rows.table(), kSlice, batch);
  for (std::uint64_t i = 1; i <= kChunkRows; ++i) rows.add_without_vector(i);
  const Slot far = rows.add(5'000);
  REQUIRE(far > kChunkRows);
  link_batch(batch, builder.graph(), rows.table(), linker, kBreadth);
  CHECK_FALSE(end_slice(builder, rows.table()));
  CHECK(build_slice(builder, rows.table(), linker));
  CHECK(builder.finish(rows.table()).graph->is_linked(far));
}

TEST_CASE("slots of a slice that get another row while it is linked are stale") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < 20; ++i) rows.add(i);
  GraphBuilder builder;
  GraphLinker linker;
  builder.begin(kLinks);
  LinkBatch batch;
  builder.begin_slice(rows.table(), 10, batch);
  for (const Slot slot : {Slot{9}, Slot{10}}) {
    builder.on_remove(slot, rows.table());
    rows.table().release(slot);
    builder.reserve(1);
    REQUIRE(rows.add(1'000 + slot) == slot);
    builder.on_vector(slot);
  }
  link_batch(batch, builder.graph(), rows.table(), linker, kBreadth);
  CHECK_FALSE(end_slice(builder, rows.table()));
  CHECK(build_slice(builder, rows.table(), linker));
  CHECK(builder.finish(rows.table()).stale == std::vector<Slot>{9});
}

}  // namespace vecall::testing

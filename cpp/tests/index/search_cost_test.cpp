// When a search of the graph is cheaper than a scan, and how large its pool is.

#include "index/search_cost.hpp"

#include <doctest.h>

namespace vecall::testing {

TEST_CASE("costs are the rows of a scan that take as long") {
  const SearchSize all = {10'000, 10'000, true, 50, 64, 10};
  CHECK(tail_cost(all) == 200.0);
  CHECK(traversal_cost(all) == 64 * 216.0 + 8'000.0 + 200.0);
  CHECK(scan_cost(all) == 10'000.0);
  // An eighth passes: seven strays for each hit, and half the scan by gathering.
  const SearchSize eighth = {10'000, 1'250, false, 0, 64, 10};
  CHECK(traversal_cost(eighth) == (64 + 105) * 216.0 + 8'000.0);
  CHECK(scan_cost(eighth) == 5'000.0);
  // A scan never costs more than that of all rows in order.
  CHECK(scan_cost({10'000, 9'000, false, 0, 64, 10}) == 13'500.0);
}

TEST_CASE("the graph is taken where the table is large against the pool") {
  for (const IndexKind kind : {IndexKind::kAuto, IndexKind::kHnsw}) {
    CHECK_FALSE(traversal_is_cheaper({21'824, 21'824, true, 0, 64, 10}, kind));
    CHECK(traversal_is_cheaper({21'825, 21'825, true, 0, 64, 10}, kind));
    // The tail is scanned beside the graph.
    CHECK_FALSE(traversal_is_cheaper({21'825, 21'825, true, 1, 64, 10}, kind));
    // A broader search needs a larger table.
    CHECK_FALSE(traversal_is_cheaper({21'825, 21'825, true, 0, 65, 10}, kind));
    // The rarer the rows that pass, the sooner it is better to look at them alone.
    CHECK(traversal_is_cheaper({100'000, 50'000, false, 0, 64, 10}, kind));
    CHECK_FALSE(traversal_is_cheaper({100'000, 5'000, false, 0, 64, 10}, kind));
    // A scan that takes little longer misses no row that passes.
    CHECK(traversal_is_cheaper({60'000, 30'000, false, 0, 64, 10}, kind));
    CHECK_FALSE(traversal_is_cheaper({60'000, 12'000, false, 0, 64, 10}, kind));
  }
}

TEST_CASE("hnsw traverses a small table unless the tail costs as much as a scan") {
  CHECK(traversal_is_cheaper({100, 100, true, 24, 1'000, 10}, IndexKind::kHnsw));
  CHECK_FALSE(traversal_is_cheaper({100, 100, true, 25, 1'000, 10}, IndexKind::kHnsw));
  CHECK(traversal_is_cheaper({16'383, 16'383, true, 0, 64, 10}, IndexKind::kHnsw));
  CHECK_FALSE(
      traversal_is_cheaper({16'384, 16'384, true, 0, 64, 10}, IndexKind::kHnsw));
  // With a filter it is decided by cost, as for kAuto.
  CHECK_FALSE(traversal_is_cheaper({100, 99, false, 0, 64, 10}, IndexKind::kHnsw));
  CHECK(traversal_is_cheaper({100'000, 90'000, false, 0, 64, 10}, IndexKind::kHnsw));
}

TEST_CASE("no graph is searched for a filter that nothing passes") {
  const SearchSize nothing = {1'000'000, 0, false, 0, 10, 10};
  CHECK(scan_cost(nothing) == 0.0);
  CHECK_FALSE(traversal_is_cheaper(nothing, IndexKind::kHnsw));
  CHECK_FALSE(traversal_is_cheaper({0, 0, true, 0, 10, 10}, IndexKind::kHnsw));
}

TEST_CASE("the pool grows with the strays among the hits, up to all slots") {
  CHECK(pool_size({10'000, 10'000, true, 0, 64, 10}) == 64);
  CHECK(pool_size({10'000, 5'000, false, 0, 64, 10}) == 79);
  CHECK(pool_size({10'000, 1, false, 0, 64, 10}) == 10'000);
  CHECK(pool_size({20, 20, true, 0, 64, 10}) == 20);
}

}  // namespace vecall::testing

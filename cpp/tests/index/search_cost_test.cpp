// When a search of the graph is cheaper than a scan, and how large its pool is.

#include "index/search_cost.hpp"

#include <doctest.h>

namespace vecall::testing {

TEST_CASE("costs are the rows of a scan that take as long") {
  const SearchSize all = {10'000, 10'000, true, 50, 64};
  CHECK(tail_cost(all) == 200.0);
  CHECK(traversal_cost(all) == 64 * 162.0 + 200.0);
  CHECK(scan_cost(all) == 10'000.0);
  // An eighth passes: eight times the breadth, and half the scan by gathering.
  const SearchSize eighth = {10'000, 1'250, false, 0, 64};
  CHECK(traversal_cost(eighth) == 8 * 64 * 162.0);
  CHECK(scan_cost(eighth) == 5'000.0);
  // A scan never costs more than that of all rows in order.
  CHECK(scan_cost({10'000, 9'000, false, 0, 64}) == 10'000.0);
}

TEST_CASE("the graph is taken where the table is large against the pool") {
  CHECK_FALSE(traversal_is_cheaper({10'368, 10'368, true, 0, 64}, IndexKind::kAuto));
  CHECK(traversal_is_cheaper({10'369, 10'369, true, 0, 64}, IndexKind::kAuto));
  // The tail is scanned beside the graph.
  CHECK_FALSE(traversal_is_cheaper({10'369, 10'369, true, 1, 64}, IndexKind::kAuto));
  // A broader search needs a larger table.
  CHECK_FALSE(traversal_is_cheaper({10'369, 10'369, true, 0, 65}, IndexKind::kAuto));
  // The rarer the rows that pass, the sooner it is better to look at them alone.
  CHECK(traversal_is_cheaper({100'000, 50'000, false, 0, 64}, IndexKind::kAuto));
  CHECK_FALSE(traversal_is_cheaper({100'000, 5'000, false, 0, 64}, IndexKind::kAuto));
}

TEST_CASE("hnsw without a filter scans only when the tail costs as much as a scan") {
  CHECK(traversal_is_cheaper({100, 100, true, 24, 1'000}, IndexKind::kHnsw));
  CHECK_FALSE(traversal_is_cheaper({100, 100, true, 25, 1'000}, IndexKind::kHnsw));
  // With a filter it is decided by cost, as for kAuto.
  CHECK_FALSE(traversal_is_cheaper({100, 99, false, 0, 64}, IndexKind::kHnsw));
  CHECK(traversal_is_cheaper({100'000, 90'000, false, 0, 64}, IndexKind::kHnsw));
}

TEST_CASE("a filter that nothing passes has finite costs, and no graph is searched") {
  const SearchSize nothing = {1'000, 0, false, 0, 10};
  CHECK(traversal_cost(nothing) == 10 * 1'000 * 162.0);
  CHECK(scan_cost(nothing) == 0.0);
  CHECK_FALSE(traversal_is_cheaper(nothing, IndexKind::kHnsw));
  CHECK_FALSE(traversal_is_cheaper({0, 0, true, 0, 10}, IndexKind::kHnsw));
}

TEST_CASE("the pool grows with the rarity of rows that pass, up to all slots") {
  CHECK(pool_size({10'000, 10'000, true, 0, 64}) == 64);
  CHECK(pool_size({10'000, 5'000, false, 0, 64}) == 128);
  CHECK(pool_size({10'000, 1, false, 0, 64}) == 10'000);
  CHECK(pool_size({20, 20, true, 0, 64}) == 20);
}

}  // namespace vecall::testing

#pragma once

// What a search costs by the graph and by a scan, in rows of a scan in order: numbers
// alone, without a graph. Pure functions, safe from any thread.

#include <algorithm>
#include <cstddef>

#include "vecall/options.hpp"

namespace vecall {

// What the costs depend on.
struct SearchSize {
  std::size_t slots = 0;     // of the row table
  std::size_t matches = 0;   // rows that pass the filter
  bool selects_all = false;  // there is no filter
  std::size_t tail = 0;      // rows that wait to be linked
  std::size_t breadth = 0;   // entries of the pool without a filter: max(ef, k)
};

namespace search_cost {

// What a row costs when it is compared (measured, see bench/results/performance.md).
inline constexpr double kGatheredRow = 4.0;
inline constexpr double kTraversedRow = 9.0;
// Rows that a traversal compares for each entry of its pool.
inline constexpr double kComparedPerEntry = 18.0;

}  // namespace search_cost

// The scan of the tail, a part of every search of the graph.
inline double tail_cost(const SearchSize& size) noexcept {
  return static_cast<double>(size.tail) * search_cost::kGatheredRow;
}

// A search of the graph, which meets a row that passes the more rarely the fewer pass.
inline double traversal_cost(const SearchSize& size) noexcept {
  const auto slots = static_cast<double>(size.slots);
  const auto matches = static_cast<double>(size.matches);
  const double share = size.selects_all ? 1.0 : std::max(matches, 1.0) / slots;
  const double breadth = static_cast<double>(size.breadth) / share;
  return breadth * search_cost::kComparedPerEntry * search_cost::kTraversedRow +
         tail_cost(size);
}

// A scan of every row, or of the rows that pass where they are few.
inline double scan_cost(const SearchSize& size) noexcept {
  const auto slots = static_cast<double>(size.slots);
  const auto matches = static_cast<double>(size.matches);
  return size.selects_all ? slots
                          : std::min(matches * search_cost::kGatheredRow, slots);
}

// Whether the graph is likely faster. kHnsw without a filter scans only where the tail
// alone costs as much.
inline bool traversal_is_cheaper(const SearchSize& size, IndexKind kind) noexcept {
  return kind == IndexKind::kHnsw && size.selects_all
             ? tail_cost(size) < static_cast<double>(size.slots)
             : traversal_cost(size) < scan_cost(size);
}

// Entries of the pool, at most one a slot. REQUIRES: matches > 0 unless selects_all.
inline std::size_t pool_size(const SearchSize& size) noexcept {
  auto breadth = static_cast<double>(size.breadth);
  if (!size.selects_all) {
    breadth *= static_cast<double>(size.slots) / static_cast<double>(size.matches);
  }
  return static_cast<std::size_t>(std::min(breadth, static_cast<double>(size.slots)));
}

}  // namespace vecall

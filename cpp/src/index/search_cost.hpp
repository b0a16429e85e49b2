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
  std::size_t hits = 0;      // wanted: k
};

namespace search_cost {

// What a row costs when it is compared (measured, see bench/results/performance.md).
inline constexpr double kGatheredRow = 4.0;
inline constexpr double kFilteredRow = 1.35;  // of a scan in order
inline constexpr double kTraversedRow = 12.0;
// What a traversal costs beside the rows of its pool: entrances, copies, rescoring.
inline constexpr double kEntered = 8'000.0;
// Rows that a traversal compares for each entry of its pool.
inline constexpr double kComparedPerEntry = 18.0;
// Entries of the pool for each row that lies among the hits and does not pass.
inline constexpr double kEntriesPerStray = 1.5;
// How much longer the scan of a filter may take: it misses no row that passes.
inline constexpr double kWorthOfExactness = 1.5;
// A table that is smaller is traversed by kHnsw, whatever a scan would cost.
inline constexpr std::size_t kSmallTable = 16'384;

}  // namespace search_cost

// The scan of the tail, a part of every search of the graph.
inline double tail_cost(const SearchSize& size) noexcept {
  return static_cast<double>(size.tail) * search_cost::kGatheredRow;
}

// Entries of the pool, at most one a slot: with a filter more, by what lies among the
// hits and does not pass. REQUIRES: matches > 0 unless selects_all.
inline std::size_t pool_size(const SearchSize& size) noexcept {
  auto breadth = static_cast<double>(size.breadth);
  if (!size.selects_all) {
    const auto strays = static_cast<double>(size.slots - size.matches);
    breadth += search_cost::kEntriesPerStray * static_cast<double>(size.hits) * strays /
               static_cast<double>(size.matches);
  }
  return static_cast<std::size_t>(std::min(breadth, static_cast<double>(size.slots)));
}

// A search of the graph, which meets a row that passes the more rarely the fewer pass.
// REQUIRES: matches > 0 unless selects_all.
inline double traversal_cost(const SearchSize& size) noexcept {
  return static_cast<double>(pool_size(size)) * search_cost::kComparedPerEntry *
             search_cost::kTraversedRow +
         search_cost::kEntered + tail_cost(size);
}

// A scan of every row, or of the rows that pass where they are few.
inline double scan_cost(const SearchSize& size) noexcept {
  const auto slots = static_cast<double>(size.slots);
  const auto matches = static_cast<double>(size.matches);
  return size.selects_all ? slots
                          : std::min(matches * search_cost::kGatheredRow,
                                     slots * search_cost::kFilteredRow);
}

// Whether the graph is likely faster. kHnsw without a filter traverses a small table
// unless the tail alone costs as much as a scan.
inline bool traversal_is_cheaper(const SearchSize& size, IndexKind kind) noexcept {
  if (kind == IndexKind::kHnsw && size.selects_all &&
      size.slots < search_cost::kSmallTable) {
    return tail_cost(size) < static_cast<double>(size.slots);
  }
  if (size.selects_all) return traversal_cost(size) < scan_cost(size);
  return size.matches > 0 &&
         traversal_cost(size) * search_cost::kWorthOfExactness < scan_cost(size);
}

}  // namespace vecall

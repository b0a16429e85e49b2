#pragma once

// Best-first search of one level of a graph. The pool is one array sorted by estimate
// with a mark on what was expanded (as in Intel's and Zilliz's searchers), instead of
// two heaps; visited slots are bits; the codes of all new neighbours are fetched before
// the first is compared.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/graph.hpp"
#include "index/shortlist.hpp"
#include "rows/row_table.hpp"
#include "vecall/assert.hpp"
#include "vectors/row_codes.hpp"
#include "vectors/row_image.hpp"

namespace vecall {

// Keeps its memory between searches; one a thread.
class GraphSearch {
 public:
  // Goes from the entry down to `level`, always to the best neighbour, and leaves the
  // best slot found in the pool. REQUIRES: the graph is not empty.
  void descend(const Graph& graph, const RowTable& rows, const EncodedQuery& query,
               int level);

  // Leaves where a search of the lowest level begins in the pool: the nearest
  // landmarks, and what descend() finds where they are few. REQUIRES: the graph is not
  // empty.
  void enter(const Graph& graph, const RowTable& rows, const EncodedQuery& query);

  // Puts the nearest landmarks into the pool too. REQUIRES: descend() or enter().
  void add_landmarks(const Graph& graph, const RowTable& rows,
                     const EncodedQuery& query);

  // Puts up to `most` rows that hold the query's vector, and pass, into the pool too.
  // REQUIRES: the same; most > 0.
  template <class Passes>
  void add_copies(const Graph& graph, const RowTable& rows, const EncodedQuery& query,
                  std::size_t most, Passes passes);

  // Searches `level` from what the pool holds, with a pool of `ef`. At most kMostCopies
  // rows that reach `copy` join the pool, and, unless there is room for every row, at
  // most kMostEqual of one estimate: a thousand copies of one row would fill it, and a
  // row that is linked to nothing but its copies leads a search nowhere else. The other
  // planes of the first `hits` entries are fetched.
  void search(const Graph& graph, const RowTable& rows, const EncodedQuery& query,
              int level, std::size_t ef, float copy, std::size_t hits);

  struct Entry {
    float estimate;
    Slot marked;

    Entry(float how_near, Slot slot) noexcept : estimate(how_near), marked(slot) {}
    [[nodiscard]] Slot slot() const noexcept { return marked & ~kExpanded; }
    [[nodiscard]] bool expanded() const noexcept { return (marked & kExpanded) != 0; }
    void expand() noexcept { marked |= kExpanded; }
  };
  // The pool of the last search, best first.
  [[nodiscard]] const std::vector<Entry>& pool() const noexcept { return pool_; }

  // Every row that the last search compared, once, and its estimate.
  [[nodiscard]] const std::vector<Slot>& met() const noexcept { return met_; }
  [[nodiscard]] const std::vector<float>& met_estimates() const noexcept {
    return met_estimates_;
  }
  // True if rows were left out of the pool because it has others of their estimate.
  [[nodiscard]] bool left_out_equals() const noexcept { return left_out_equals_; }

 private:
  struct Limits {
    std::size_t ef;  // entries of the pool
    float copy;
  };

  // Estimates of slots_[at, at + count) into estimates_.
  void compare(const RowTable& rows, const EncodedQuery& query, std::size_t at,
               std::size_t count);
  // Puts those of slots_[at, at + count) that are good enough into the pool; returns
  // the best place of one, or the end.
  std::size_t take(const RowTable& rows, const EncodedQuery& query, std::size_t at,
                   std::size_t count, const Limits& limits);
  // Expands the first entry from `next` on that was not: its slot, whose links are then
  // on the way to the cache, as are the codes by which one of the hits is scored; or
  // kNoSlot.
  Slot choose(const Graph& graph, const RowTable& rows, int level, std::size_t hits,
              std::size_t& next);

  static constexpr Slot kExpanded = Slot{1} << 31;
  static constexpr std::size_t kMostCopies = 8;
  static constexpr std::size_t kMostEqual = 2;
  static constexpr std::size_t kLandmarks = 4;  // that a search begins at
  // So many of them make the levels needless, unless each stands for more rows.
  static constexpr std::size_t kManyLandmarks = 256;
  static constexpr std::size_t kRowsALandmark = 256;

  [[nodiscard]] bool is_in_pool(Slot slot) const noexcept {
    return std::any_of(pool_.begin(), pool_.end(),
                       [slot](const Entry& entry) { return entry.slot() == slot; });
  }
  void make_room();  // in the scratch, once a search
  // Puts slots_[0, count) into the pool, which is sorted afterwards.
  void add_to_pool(const RowTable& rows, const EncodedQuery& query, std::size_t count);
  void begin(const RowTable& rows, std::size_t ef);
  // The unvisited neighbours of a slot into slots_ from `at` on, their codes on the way
  // to the cache.
  std::size_t collect(const Graph& graph, const RowTable& rows, Slot slot, int level,
                      std::size_t at);

  bool visit_once(Slot slot) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    const bool is_new = (visited_[slot / 64] & bit) == 0;
    visited_[slot / 64] |= bit;
    return is_new;
  }

  // Puts an entry into its place if there is one; returns the place, or the end.
  std::size_t insert(Entry entry, std::size_t ef) {
    const std::size_t size = pool_.size();
    if (size == ef && entry.estimate <= pool_.back().estimate) return size;
    // The first entry that is worse, by halves and without a branch.
    const Entry* base = pool_.data();
    for (std::size_t left = size; left > 0;) {
      const std::size_t half = (left + 1) / 2;
      base += base[half - 1].estimate >= entry.estimate ? half : 0;
      left -= half;
    }
    const auto place = static_cast<std::size_t>(base - pool_.data());
    if (limits_equals_ && place >= kMostEqual &&
        (base - kMostEqual)->estimate == entry.estimate) {
      left_out_equals_ = true;
      return size;
    }
    if (size == ef) pool_.pop_back();
    pool_.insert(pool_.begin() + static_cast<std::ptrdiff_t>(place), entry);
    return place;
  }

  std::vector<Entry> pool_;
  std::vector<Slot> met_;
  std::vector<float> met_estimates_;
  std::size_t copies_ = 0;  // that joined the pool
  bool left_out_equals_ = false;
  bool limits_equals_ = false;  // not where the pool has room for every row
  std::vector<std::uint64_t> visited_;
  std::vector<Slot> slots_;
  std::vector<const std::uint8_t*> codes_;
  std::vector<float> factors_;
  std::vector<float> estimates_;
  std::vector<std::uint32_t> positions_;
  std::vector<float> nearness_;  // of the landmarks
  RowImage image_;
};

template <class Passes>
void GraphSearch::add_copies(const Graph& graph, const RowTable& rows,
                             const EncodedQuery& query, std::size_t most,
                             Passes passes) {
  VECALL_ASSERT(!pool_.empty() && most > 0);
  image_.make(rows.space(), query);
  std::size_t found = 0;
  graph.copies().find(rows, image_, [&](Slot slot) {
    if (!passes(slot) || is_in_pool(slot)) return true;
    slots_[found] = slot;
    codes_[found++] = rows.high(slot);
    return found < std::min(most, factors_.size());
  });
  if (found > 0) add_to_pool(rows, query, found);
}

}  // namespace vecall

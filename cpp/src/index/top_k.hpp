#pragma once

// Keeps the best k of a stream of scored slots. Equal scores are ordered by the rows'
// own rule (newer, then smaller id), so that an answer does not depend on where rows
// lie. Not thread-safe: one a query; callers hold the lock of the rows' partition.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "rows/row_table.hpp"
#include "vecall/assert.hpp"
#include "vecall/types.hpp"

namespace vecall {

struct Scored {
  Slot slot;
  double score;  // near copies differ by less than a float can tell
};

class TopK {
 public:
  // `best` is the caller's scratch; it is emptied.
  TopK(std::vector<Scored>& best, std::size_t k, const RowTable& rows)
      : best_(best), k_(k), rows_(rows) {
    best_.clear();
  }

  // The score that a newcomer must reach; nothing is refused while there is room.
  [[nodiscard]] double floor() const noexcept {
    return best_.size() < k_ ? -std::numeric_limits<double>::infinity()
                             : best_.front().score;
  }
  [[nodiscard]] bool wants(double score) const noexcept { return score >= floor(); }

  // The last of them, which a newcomer must precede. REQUIRES: not empty.
  [[nodiscard]] const Scored& last() const noexcept {
    VECALL_ASSERT(!best_.empty());
    return best_.front();
  }

  // REQUIRES: k > 0.
  void offer(Scored row) {
    VECALL_ASSERT(k_ > 0);
    const auto better = [this](const Scored& a, const Scored& b) {
      return before(a, b);
    };
    if (best_.size() < k_) {
      best_.push_back(row);
      std::push_heap(best_.begin(), best_.end(), better);
    } else if (before(row, best_.front())) {
      std::pop_heap(best_.begin(), best_.end(), better);
      best_.back() = row;
      std::push_heap(best_.begin(), best_.end(), better);
    }
  }

  // Best first.
  void finish() {
    std::sort(best_.begin(), best_.end(),
              [this](const Scored& a, const Scored& b) { return before(a, b); });
  }

 private:
  [[nodiscard]] bool before(const Scored& a, const Scored& b) const noexcept {
    if (a.score != b.score) return a.score > b.score;
    return rows_.precedes(a.slot, b.slot);
  }

  std::vector<Scored>& best_;
  std::size_t k_;
  const RowTable& rows_;
};

}  // namespace vecall

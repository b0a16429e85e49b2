#include "index/pending_tail.hpp"

#include <algorithm>

#include "vecall/assert.hpp"

namespace vecall {

void PendingTail::add(Slot slot, RowTable& rows) noexcept {
  if (!rows.is_pending(slot)) {
    VECALL_ASSERT(pending_.size() + slice_ < pending_.capacity());
    rows.set_pending(slot, true);
    pending_.push_back(slot);
    return;
  }
  if (slot < lowest_ || slot > highest_) return;
  const std::span<const Slot> being_linked = slice();
  for (std::size_t i = 0; i < being_linked.size(); ++i) {
    if (being_linked[i] == slot) replaced_.set(i);
  }
}

void PendingTail::clear(RowTable& rows) noexcept {
  for (const Slot slot : slots()) rows.set_pending(slot, false);
  pending_.clear();
  linked_ = 0;
  slice_ = 0;
  replaced_.reset();
}

void PendingTail::begin_slice(std::size_t most) {
  VECALL_ASSERT(most <= kMostSlice);
  const std::size_t count = std::min(most, size());
  reserve_more(pending_, count);
  slice_ = count;
  replaced_.reset();
  if (count == 0) return;
  const auto [low, high] = std::ranges::minmax(slice());
  lowest_ = low;
  highest_ = high;
}

// Takes the linked rows from the front once they are half of all: each row is moved
// once on average.
void PendingTail::forget_linked() noexcept {
  if (2 * linked_ < pending_.size()) return;
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(linked_));
  linked_ = 0;
}

}  // namespace vecall

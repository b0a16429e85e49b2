#include "partition/session_index.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

#include "terms/sorted_block.hpp"
#include "vecall/assert.hpp"

namespace vecall {

bool stands_before(Slot a, Slot b, const RowTable& rows) noexcept {
  const double at_a = rows.position(a);
  const double at_b = rows.position(b);
  if (std::isnan(at_a) != std::isnan(at_b)) return std::isnan(at_a);
  if (at_a < at_b || at_b < at_a) return at_a < at_b;
  return rows.id(a) < rows.id(b);
}

SessionIndex::SessionIndex(Slot last, const RowTable& rows) {
  std::vector<Slot> order;  // from the last row to the first
  for (Slot slot = last; slot != kNoSlot; slot = rows.previous(slot)) {
    order.push_back(slot);
  }
  // Half full, so that the next insertions split nothing.
  constexpr std::size_t kFilled = kMost / 2;
  blocks_.reserve(order.size() / kFilled + 1);
  std::reverse(order.begin(), order.end());
  std::span<const Slot> left(order);
  while (!left.empty()) {
    const auto some = left.first(std::min(kFilled, left.size()));
    blocks_.push_back(make_block(Block(), some, kMost));
    left = left.subspan(some.size());
  }
}

std::size_t SessionIndex::block_of(Slot slot, const RowTable& rows) const noexcept {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), slot,
                                      [&rows](Slot a, const Block& block) {
                                        return stands_before(a, block.front(), rows);
                                      });
  const auto at = static_cast<std::size_t>(after - blocks_.begin());
  return at == 0 ? 0 : at - 1;
}

SessionIndex::Place SessionIndex::insert(Slot slot, const RowTable& rows) {
  if (blocks_.empty()) {
    blocks_.push_back(make_block(Block(), std::span(&slot, 1), kMost));
    return {};
  }
  std::size_t which = block_of(slot, rows);
  if (blocks_[which].size() == kMost) {
    split_block(blocks_, which);
    which = block_of(slot, rows);
  }
  Block& block = blocks_[which];
  const auto at =
      std::upper_bound(block.begin(), block.end(), slot,
                       [&rows](Slot a, Slot b) { return stands_before(a, b, rows); });
  Place place;
  if (at != block.begin()) {
    place.before = *std::prev(at);
  } else if (which > 0) {
    place.before = blocks_[which - 1].back();
  }
  if (at != block.end()) {
    place.after = *at;
  } else if (which + 1 < blocks_.size()) {
    place.after = blocks_[which + 1].front();
  }
  block.insert(at, slot);  // there is room
  return place;
}

void SessionIndex::erase(Slot slot, const RowTable& rows) noexcept {
  if (blocks_.empty()) return;
  const std::size_t which = block_of(slot, rows);
  Block& block = blocks_[which];
  const auto at =
      std::lower_bound(block.begin(), block.end(), slot,
                       [&rows](Slot a, Slot b) { return stands_before(a, b, rows); });
  VECALL_ASSERT(at != block.end() && *at == slot);
  if (at == block.end() || *at != slot) return;
  block.erase(at);
  if (block.empty())
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
}

std::size_t SessionIndex::nbytes() const noexcept {
  return sizeof(*this) + blocks_.size() * kMost * sizeof(Slot) +
         blocks_.capacity() * sizeof(Block);
}

}  // namespace vecall

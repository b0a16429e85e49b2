#include "partition/session_index.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

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
  for (const Slot slot : order) {
    if (blocks_.empty() || blocks_.back().size() == kFilled) {
      blocks_.push_back(make_block());
    }
    blocks_.back().push_back(slot);
  }
}

SessionIndex::Block SessionIndex::make_block() {
  Block block;
  block.reserve(kMost);
  return block;
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
    blocks_.push_back(make_block());
    blocks_.front().push_back(slot);
    return {};
  }
  std::size_t which = block_of(slot, rows);
  if (blocks_[which].size() == kMost) {
    split(which);
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

// A full block becomes two. The last one stays whole: a session grows at its end.
void SessionIndex::split(std::size_t at) {
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(2 * blocks_.size() + 1);
  Block upper = make_block();
  Block& block = blocks_[at];
  const bool is_last = at + 1 == blocks_.size();
  const std::size_t lower_size = is_last ? kMost - 1 : kMost / 2;
  const auto middle = block.begin() + static_cast<std::ptrdiff_t>(lower_size);
  upper.assign(middle, block.end());
  block.erase(middle, block.end());
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                 std::move(upper));
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

#include "rows/id_map.hpp"

#include <algorithm>
#include <bit>

#include "rows/row_table.hpp"
#include "vecall/assert.hpp"

namespace vecall {

void IdMap::reserve(std::size_t rows, const RowTable& table) {
  if (rows <= kSearchedRows || rows * 3 <= size_ * 2) return;
  const std::size_t grown = std::bit_ceil(rows * 3 / 2 + 1);
  auto slots = std::make_unique_for_overwrite<Slot[]>(grown);
  std::fill_n(slots.get(), grown, kNoSlot);
  slots_ = std::move(slots);
  size_ = grown;
  for (Slot slot = 0; slot < table.slots(); ++slot) {
    if (table.is_live(slot)) insert(slot, table);
  }
}

Slot IdMap::find(RowId id, const RowTable& table) const noexcept {
  if (size_ == 0) {
    const RowId* ids = table.first_ids();
    for (Slot slot = 0; slot < table.slots(); ++slot) {
      if (ids[slot] == id && table.is_live(slot)) return slot;
    }
    return kNoSlot;
  }
  for (std::size_t at = home(id);; at = (at + 1) & (size_ - 1)) {
    const Slot slot = slots_[at];
    if (slot == kNoSlot || table.id(slot) == id) return slot;
  }
}

void IdMap::prefetch_row(RowId id, const RowTable& table) const noexcept {
  if (size_ == 0) return;
  const Slot slot = slots_[home(id)];
  if (slot != kNoSlot) table.prefetch_id(slot);
}

void IdMap::insert(Slot slot, const RowTable& table) noexcept {
  if (size_ == 0) return;
  std::size_t at = home(table.id(slot));
  while (slots_[at] != kNoSlot) {
    VECALL_ASSERT(table.id(slots_[at]) != table.id(slot));
    at = (at + 1) & (size_ - 1);
  }
  slots_[at] = slot;
}

// Closes the gap, so that no marks of the dead pile up (Knuth, "The Art of Computer
// Programming", volume 3, section 6.4, algorithm R).
void IdMap::erase(Slot slot, const RowTable& table) noexcept {
  if (size_ == 0) return;
  const std::size_t mask = size_ - 1;
  std::size_t hole = home(table.id(slot));
  while (slots_[hole] != slot) {
    VECALL_ASSERT(slots_[hole] != kNoSlot);
    hole = (hole + 1) & mask;
  }
  for (std::size_t at = (hole + 1) & mask; slots_[at] != kNoSlot;
       at = (at + 1) & mask) {
    const std::size_t wanted = home(table.id(slots_[at]));
    if (((at - wanted) & mask) >= ((at - hole) & mask)) {
      slots_[hole] = slots_[at];
      hole = at;
    }
  }
  slots_[hole] = kNoSlot;
}

}  // namespace vecall

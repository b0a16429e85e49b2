#pragma once

// The rows that wait to be linked into a graph which is searched already: scans look at
// them until then. A slice from the front is linked at a time; its rows stay in the
// tail until all of them are linked, and those whose slot got another row meanwhile
// wait again.
//
// Keeps the flag `pending` of the row table: a slot has it while it is in the tail,
// also after its row was removed, so no slot is in the tail twice.
//
// Thread safety: const methods need the partition's lock shared, the others unique.

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <span>
#include <vector>

#include "index/reserve_more.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class PendingTail {
 public:
  static constexpr std::size_t kMostSlice = 512;  // rows of a slice

  // Makes room for `more` rows; add() and end_slice() cannot fail afterwards.
  void reserve(std::size_t more) { reserve_more(pending_, slice_ + more); }
  // Takes a slot that got a row; in the slice, its row is marked as replaced. REQUIRES:
  // reserved.
  void add(Slot slot, RowTable& rows) noexcept;
  // Empties the tail.
  void clear(RowTable& rows) noexcept;

  // Makes a slice of the first rows, at most `most` of them, kMostSlice or fewer.
  void begin_slice(std::size_t most);
  // Takes rows of the slice out, at most `most`, but for replaced ones, which go to the
  // end. Calls linked(slot) for each row that leaves the tail. True once the slice is
  // empty.
  template <class Linked>
  bool end_slice(RowTable& rows, std::size_t most, Linked linked) noexcept;

  // The rows that wait, oldest first, the slice at the front.
  [[nodiscard]] std::span<const Slot> slots() const noexcept {
    return std::span(pending_).subspan(linked_);
  }
  [[nodiscard]] std::span<const Slot> slice() const noexcept {
    return slots().first(slice_);
  }
  [[nodiscard]] std::size_t size() const noexcept { return pending_.size() - linked_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return pending_.capacity() * sizeof(Slot);
  }

 private:
  void forget_linked() noexcept;

  std::vector<Slot> pending_;  // after those that were linked lately
  std::size_t linked_ = 0;     // of pending_, from the front, linked already
  std::size_t slice_ = 0;      // of the others, from the front, being linked now
  Slot lowest_ = 0;            // of the slice when it began
  Slot highest_ = 0;
  std::bitset<kMostSlice> replaced_;  // which of those got another row meanwhile
};

template <class Linked>
bool PendingTail::end_slice(RowTable& rows, std::size_t most, Linked linked) noexcept {
  const std::size_t count = std::min(most, slice_);
  for (std::size_t i = 0; i < count; ++i) {
    const Slot slot = slots()[i];
    if (replaced_[i]) {
      pending_.push_back(slot);
    } else {
      rows.set_pending(slot, false);
      linked(slot);
    }
  }
  linked_ += count;
  slice_ -= count;
  replaced_ >>= count;
  forget_linked();
  return slice_ == 0;
}

}  // namespace vecall

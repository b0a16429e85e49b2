#pragma once

// The rows of one long session in order, so that a row finds its place in it by a
// binary search: sorted slots in blocks of which an insertion moves one. Not
// thread-safe: the partition's lock guards it.

#include <cstddef>
#include <vector>

#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

// Whether row `a` stands before row `b` of its session: rows without a position first,
// then by position, rows of one position by id.
[[nodiscard]] bool stands_before(Slot a, Slot b, const RowTable& rows) noexcept;

class SessionIndex {
 public:
  struct Place {
    Slot before = kNoSlot;  // the row that stands right before
    Slot after = kNoSlot;
  };

  // Takes over the rows that are linked before `last`, and `last`. Throws
  // std::bad_alloc.
  SessionIndex(Slot last, const RowTable& rows);

  // Inserts a row; returns between which rows it stands. Throws std::bad_alloc, and
  // then nothing has changed.
  Place insert(Slot slot, const RowTable& rows);
  // REQUIRES: the columns of `slot` are still those it was inserted with.
  void erase(Slot slot, const RowTable& rows) noexcept;
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  static constexpr std::size_t kMost = 512;  // rows of a block

  using Block = std::vector<Slot>;  // sorted, never empty, room for kMost

  // The block where the row is, or would be.
  [[nodiscard]] std::size_t block_of(Slot slot, const RowTable& rows) const noexcept;

  std::vector<Block> blocks_;
};

}  // namespace vecall

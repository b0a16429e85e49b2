#pragma once

// Finds the slot of a row's id: open addressing over slots alone, whose ids are in the
// row table, so that it costs 6 to 12 bytes a row. A partition of few rows has no table
// and looks through its ids. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "vecall/types.hpp"

namespace vecall {

class RowTable;

class IdMap {
 public:
  // Makes room for `rows` ids, and takes the live rows of the table where it grows.
  // Strong guarantee; insert cannot fail afterwards.
  void reserve(std::size_t rows, const RowTable& table);
  // The slot of a live row, or kNoSlot.
  [[nodiscard]] Slot find(RowId id, const RowTable& table) const noexcept;
  // For many lookups: the first brings what find() reads first, the second, a few
  // lookups later, what that leads to.
  void prefetch(RowId id) const noexcept {
    if (size_ > 0) __builtin_prefetch(&slots_[home(id)]);
  }
  void prefetch_row(RowId id, const RowTable& table) const noexcept;
  // REQUIRES: reserved, the row's id is set, no other live row has it.
  void insert(Slot slot, const RowTable& table) noexcept;
  // REQUIRES: the row's id is still set.
  void erase(Slot slot, const RowTable& table) noexcept;
  [[nodiscard]] std::size_t nbytes() const noexcept { return size_ * sizeof(Slot); }

 private:
  static constexpr std::size_t kSearchedRows = 256;  // up to here there is no table

  [[nodiscard]] std::size_t home(RowId id) const noexcept {
    const auto mixed = static_cast<std::uint64_t>(id) * 0x9E37'79B9'7F4A'7C15ULL;
    return static_cast<std::size_t>((mixed ^ (mixed >> 32)) & (size_ - 1));
  }

  std::unique_ptr<Slot[]> slots_;  // kNoSlot where empty
  std::size_t size_ = 0;           // a power of two, or 0
};

}  // namespace vecall

#pragma once

// The unit vectors of one partition by slot, and which slots have one. Not thread-safe:
// the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vecall/types.hpp"
#include "vectors/aligned_rows.hpp"

namespace vecall {

class VectorStore {
 public:
  explicit VectorStore(std::size_t dim) : rows_(dim) {}

  // Makes room for slots below `slots`. Strong guarantee; `set` and `clear` cannot fail
  // afterwards.
  void reserve(std::size_t slots);
  // REQUIRES: slot was reserved; `unit` has norm 1 and is dim() long.
  void set(Slot slot, std::span<const float> unit) noexcept;
  void clear(Slot slot) noexcept;
  [[nodiscard]] bool has(Slot slot) const noexcept { return present_[slot] != 0; }
  // Rows with a vector; when it equals the number of slots, a scan need not ask has().
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const AlignedRows& rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t dim() const noexcept { return rows_.dim(); }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return rows_.nbytes() + present_.capacity();
  }

 private:
  AlignedRows rows_;
  std::vector<std::uint8_t> present_;
  std::size_t count_ = 0;
};

}  // namespace vecall

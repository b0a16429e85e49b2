#pragma once

// A filter applied to the rows of one partition: which slots pass. Made once a query
// from the columns, then tested row by row. Keeps its memory between queries; one a
// thread.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rows/id_map.hpp"
#include "rows/labels.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class RowSelection {
 public:
  // `labels` may be null: no row has a name. `last_of_session`, by session number, is
  // where the links of a session begin.
  void select(const Filter& filter, const RowTable& rows, const Labels* labels,
              const std::vector<Slot>& last_of_session, const IdMap& ids);

  // True if every live row passes.
  [[nodiscard]] bool selects_all() const noexcept { return selects_all_; }
  // Rows that pass; the live ones where selects_all() does.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool contains(Slot slot) const noexcept {
    if (selects_all_) return rows_->is_live(slot);
    return (bits_[slot / 64] >> (slot % 64) & 1) != 0;
  }

  // Calls visit(slot) for each row that passes, ascending.
  template <class Visit>
  void for_each(Visit visit) const {
    if (selects_all_) {
      for (Slot slot = 0; slot < rows_->slots(); ++slot) {
        if (rows_->is_live(slot)) visit(slot);
      }
      return;
    }
    for (std::size_t word = 0; word < bits_.size(); ++word) {
      for (std::uint64_t left = bits_[word]; left != 0; left &= left - 1) {
        visit(static_cast<Slot>(word * 64 +
                                static_cast<std::size_t>(std::countr_zero(left))));
      }
    }
  }

 private:
  void add(Slot slot) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    count_ += (bits_[slot / 64] & bit) == 0 ? 1 : 0;
    bits_[slot / 64] |= bit;
  }
  void remove(Slot slot) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    count_ -= (bits_[slot / 64] & bit) != 0 ? 1 : 0;
    bits_[slot / 64] &= ~bit;
  }
  void select_mask(std::span<const std::uint8_t> mask);
  void leave_out(const Filter& filter, const RowTable& rows, const Labels* labels,
                 const std::vector<Slot>& last_of_session, const IdMap& ids);

  const RowTable* rows_ = nullptr;
  bool selects_all_ = true;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> bits_;
};

}  // namespace vecall

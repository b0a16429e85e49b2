#pragma once

// Which rows are neighbours in a session: a linked list a session, in order of
// position, so that a search finds neighbours by one look. The links are columns of the
// row table. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "partition/session_index.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class SessionOrder {
 public:
  // Makes room for sessions with numbers below `numbers`. Strong guarantee.
  void reserve(std::size_t numbers) {
    if (numbers > last_.size()) last_.resize(numbers, kNoSlot);
  }

  // Costs little for a row at the session's end, and the logarithm of the session's
  // rows elsewhere. REQUIRES: reserved, the row's session and position are set.
  void add(Slot slot, RowTable& rows) noexcept;
  // REQUIRES: the columns of `slot` are still those it was added with.
  void remove(Slot slot, RowTable& rows) noexcept;

  // The row that stands before or after, if it is at most one position away, or
  // kNoSlot: a session has gaps where an event was deleted or never remembered.
  [[nodiscard]] static Slot previous(Slot slot, const RowTable& rows) noexcept {
    if (!rows.has_meta()) return kNoSlot;
    const Slot beside = rows.previous(slot);
    return beside != kNoSlot && is_next(beside, slot, rows) ? beside : kNoSlot;
  }
  [[nodiscard]] static Slot next(Slot slot, const RowTable& rows) noexcept {
    if (!rows.has_meta()) return kNoSlot;
    const Slot beside = rows.next(slot);
    return beside != kNoSlot && is_next(slot, beside, rows) ? beside : kNoSlot;
  }

  // By session number, the last row of the session or kNoSlot.
  [[nodiscard]] const std::vector<Slot>& last() const noexcept { return last_; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return last_.capacity() * sizeof(Slot) + index_bytes_;
  }

 private:
  // From so many rows behind a new one on, its session gets an index.
  static constexpr std::size_t kManyRows = 64;

  // False for rows of one position, and where either has none.
  static bool is_next(Slot first, Slot second, const RowTable& rows) noexcept {
    const double apart = rows.position(second) - rows.position(first);
    return apart > 0.0 && apart <= 1.0;
  }

  [[nodiscard]] SessionIndex::Place place_of(Slot slot, const RowTable& rows) noexcept;
  // The same by the session's index, which is dropped where memory is short.
  [[nodiscard]] std::optional<SessionIndex::Place> indexed_place_of(
      Slot slot, const RowTable& rows) noexcept;
  [[nodiscard]] bool is_indexed(std::uint32_t session) const noexcept {
    return !indexes_.empty() && indexes_.contains(session);
  }
  void make_index(std::uint32_t session, const RowTable& rows) noexcept;
  void drop_index(std::uint32_t session) noexcept;

  std::vector<Slot> last_;
  // Of long sessions whose rows did not come in order. They need no memory to be right:
  // where there is none for them, the links are walked.
  std::unordered_map<std::uint32_t, SessionIndex> indexes_;
  std::size_t index_bytes_ = 0;
};

}  // namespace vecall

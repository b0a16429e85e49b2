#pragma once

// Who stands next to whom in a session: a linked list a session, in order of position,
// so that a search finds neighbours by one look. The links are columns of the row
// table. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class SessionOrder {
 public:
  static constexpr Slot kNobody = RowTable::kNobody;

  // Makes room for sessions with numbers below `numbers`. Strong guarantee.
  void reserve(std::size_t numbers) {
    if (numbers > last_.size()) last_.resize(numbers, kNobody);
  }

  // Costs the number of rows of the session behind the new one: none for a session that
  // is told in order. REQUIRES: reserved, the row's session and position are set.
  void add(Slot slot, RowTable& rows) noexcept {
    const std::uint32_t session = rows.session(slot);
    if (session == 0) return;
    Slot& last = last_[session];
    Slot after = last;
    Slot follower = kNobody;
    while (after != kNobody && stands_before(slot, after, rows)) {
      follower = after;
      after = rows.previous(after);
    }
    rows.set_previous(slot, after);
    rows.set_next(slot, follower);
    if (after != kNobody) rows.set_next(after, slot);
    if (follower != kNobody) {
      rows.set_previous(follower, slot);
    } else {
      last = slot;
    }
  }

  // REQUIRES: the columns of `slot` are still those it was added with.
  void remove(Slot slot, RowTable& rows) noexcept {
    const std::uint32_t session = rows.session(slot);
    if (session == 0) return;
    const Slot before = rows.previous(slot);
    const Slot after = rows.next(slot);
    if (before != kNobody) rows.set_next(before, after);
    if (after != kNobody) {
      rows.set_previous(after, before);
    } else {
      last_[session] = before;
    }
    rows.set_previous(slot, kNobody);
    rows.set_next(slot, kNobody);
  }

  // The row one position before or after, or kNobody: a session has gaps where an event
  // was deleted or never remembered.
  [[nodiscard]] static Slot previous(Slot slot, const RowTable& rows) noexcept {
    if (!rows.has_meta()) return kNobody;
    const Slot beside = rows.previous(slot);
    const bool adjacent =
        beside != kNobody &&
        std::int64_t{rows.position(beside)} + 1 == rows.position(slot);
    return adjacent ? beside : kNobody;
  }
  [[nodiscard]] static Slot next(Slot slot, const RowTable& rows) noexcept {
    if (!rows.has_meta()) return kNobody;
    const Slot beside = rows.next(slot);
    const bool adjacent =
        beside != kNobody &&
        rows.position(beside) == std::int64_t{rows.position(slot)} + 1;
    return adjacent ? beside : kNobody;
  }

  // By session number, the last row of the session or kNobody.
  [[nodiscard]] const std::vector<Slot>& last() const noexcept { return last_; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return last_.capacity() * sizeof(Slot);
  }

 private:
  // Rows of one position, which a well-told session has none of, stand by id.
  static bool stands_before(Slot a, Slot b, const RowTable& rows) noexcept {
    if (rows.position(a) != rows.position(b))
      return rows.position(a) < rows.position(b);
    return rows.id(a) < rows.id(b);
  }

  std::vector<Slot> last_;
};

}  // namespace vecall

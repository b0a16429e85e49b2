#pragma once

// Who stands next to whom in a session: a linked list a session, in order of position,
// so that a search finds neighbours by one look. Not thread-safe: the partition's lock
// guards it.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "filter/row_columns.hpp"
#include "vecall/types.hpp"

namespace vecall {

class SessionOrder {
 public:
  static constexpr Slot kNobody = static_cast<Slot>(-1);

  // Makes room for slots below `slots`. Strong guarantee.
  void reserve(std::size_t slots) {
    if (slots <= links_.size()) return;
    links_.resize(slots);
  }

  // Costs the number of rows of the session behind the new one: none for a session that
  // is told in order. Strong guarantee. REQUIRES: reserved, and the columns are set.
  void add(Slot slot, const RowColumns& rows) {
    links_[slot] = {};
    if (rows.session(slot) == kNoSession) return;
    const auto [entry, is_new] = last_.try_emplace(rows.session(slot), slot);
    if (is_new) return;
    Slot after = entry->second;
    Slot follower = kNobody;
    while (after != kNobody && stands_before(slot, after, rows)) {
      follower = after;
      after = links_[after].previous;
    }
    links_[slot] = {after, follower};
    if (after != kNobody) links_[after].next = slot;
    if (follower != kNobody) {
      links_[follower].previous = slot;
    } else {
      entry->second = slot;
    }
  }

  // REQUIRES: the columns of `slot` are still those it was added with.
  void remove(Slot slot, const RowColumns& rows) noexcept {
    if (rows.session(slot) == kNoSession) return;
    const Link link = links_[slot];
    if (link.previous != kNobody) links_[link.previous].next = link.next;
    if (link.next != kNobody) {
      links_[link.next].previous = link.previous;
    } else if (link.previous != kNobody) {
      last_.find(rows.session(slot))->second = link.previous;
    } else {
      last_.erase(rows.session(slot));
    }
    links_[slot] = {};
  }

  // The row one position before or after, or kNobody: a session has gaps where an event
  // was deleted or never remembered.
  [[nodiscard]] Slot previous(Slot slot, const RowColumns& rows) const noexcept {
    const Slot beside = links_[slot].previous;
    const bool adjacent =
        beside != kNobody &&
        std::int64_t{rows.position(beside)} + 1 == rows.position(slot);
    return adjacent ? beside : kNobody;
  }
  [[nodiscard]] Slot next(Slot slot, const RowColumns& rows) const noexcept {
    const Slot beside = links_[slot].next;
    const bool adjacent =
        beside != kNobody &&
        rows.position(beside) == std::int64_t{rows.position(slot)} + 1;
    return adjacent ? beside : kNobody;
  }

  [[nodiscard]] std::size_t nbytes() const noexcept {
    return links_.capacity() * sizeof(Link) + last_.size() * 32 +
           last_.bucket_count() * sizeof(void*);
  }

 private:
  // Rows of one position, which a well-told session has none of, stand by id.
  static bool stands_before(Slot a, Slot b, const RowColumns& rows) noexcept {
    if (rows.position(a) != rows.position(b))
      return rows.position(a) < rows.position(b);
    return rows.id(a) < rows.id(b);
  }

  struct Link {
    Slot previous = kNobody;
    Slot next = kNobody;
  };

  std::vector<Link> links_;
  std::unordered_map<SessionKey, Slot> last_;  // the end of each session
};

}  // namespace vecall

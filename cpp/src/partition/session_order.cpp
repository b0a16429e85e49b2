#include "partition/session_order.hpp"

#include <new>

#include "vecall/assert.hpp"

namespace vecall {

void SessionOrder::add(Slot slot, RowTable& rows) noexcept {
  const std::uint32_t session = rows.session(slot);
  if (session == 0) return;
  VECALL_ASSERT(session < last_.size());
  const SessionIndex::Place place = place_of(slot, rows);
  rows.set_previous(slot, place.before);
  rows.set_next(slot, place.after);
  if (place.before != kNoSlot) rows.set_next(place.before, slot);
  if (place.after != kNoSlot) {
    rows.set_previous(place.after, slot);
  } else {
    last_[session] = slot;
  }
}

std::optional<SessionIndex::Place> SessionOrder::indexed_place_of(
    Slot slot, const RowTable& rows) noexcept {
  const std::uint32_t session = rows.session(slot);
  if (!is_indexed(session)) return std::nullopt;
  try {
    SessionIndex& index = indexes_.find(session)->second;
    const std::size_t before = index.nbytes();
    const SessionIndex::Place place = index.insert(slot, rows);
    index_bytes_ += index.nbytes() - before;
    return place;
  } catch (const std::bad_alloc&) {
    drop_index(session);
    return std::nullopt;
  }
}

SessionIndex::Place SessionOrder::place_of(Slot slot, const RowTable& rows) noexcept {
  if (const auto place = indexed_place_of(slot, rows)) return *place;
  const std::uint32_t session = rows.session(slot);
  SessionIndex::Place place{last_[session], kNoSlot};
  for (std::size_t steps = 0;
       place.before != kNoSlot && stands_before(slot, place.before, rows); ++steps) {
    if (steps == kManyRows) {
      make_index(session, rows);
      if (const auto found = indexed_place_of(slot, rows)) return *found;
    }
    place.after = place.before;
    place.before = rows.previous(place.before);
  }
  return place;
}

void SessionOrder::make_index(std::uint32_t session, const RowTable& rows) noexcept {
  try {
    const auto made = indexes_.try_emplace(session, last_[session], rows);
    index_bytes_ += made.first->second.nbytes();
  } catch (const std::bad_alloc&) {
    // The next row that comes out of order tries again.
  }
}

void SessionOrder::drop_index(std::uint32_t session) noexcept {
  const auto found = indexes_.find(session);
  if (found == indexes_.end()) return;
  index_bytes_ -= found->second.nbytes();
  indexes_.erase(found);
}

void SessionOrder::remove(Slot slot, RowTable& rows) noexcept {
  const std::uint32_t session = rows.session(slot);
  if (session == 0) return;
  VECALL_ASSERT(rows.next(slot) != kNoSlot || last_[session] == slot);
  if (is_indexed(session)) {
    SessionIndex& index = indexes_.find(session)->second;
    index_bytes_ -= index.nbytes();
    index.erase(slot, rows);
    index_bytes_ += index.nbytes();
  }
  const Slot before = rows.previous(slot);
  const Slot after = rows.next(slot);
  if (before != kNoSlot) rows.set_next(before, after);
  if (after != kNoSlot) {
    rows.set_previous(after, before);
  } else {
    last_[session] = before;
    if (before == kNoSlot) drop_index(session);
  }
  rows.set_previous(slot, kNoSlot);
  rows.set_next(slot, kNoSlot);
}

}  // namespace vecall

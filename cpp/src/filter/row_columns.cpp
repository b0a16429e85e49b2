#include "filter/row_columns.hpp"

namespace vecall {

void RowColumns::reserve(std::size_t slots) {
  if (slots <= id_.size()) return;
  // Capacities first, sizes last: if one allocation fails, no column has grown.
  const auto grown = slots > id_.capacity() ? slots + slots / 2 : slots;
  id_.reserve(grown);
  time_.reserve(grown);
  expires_.reserve(grown);
  session_.reserve(grown);
  position_.reserve(grown);
  live_.reserve(grown);
  id_.resize(slots, 0);
  time_.resize(slots, 0);
  expires_.resize(slots, kMaxTime);
  session_.resize(slots, kNoSession);
  position_.resize(slots, 0);
  live_.resize(slots, 0);
}

void RowColumns::set(Slot slot, RowId id, const RowMeta& meta) noexcept {
  clear(slot);
  id_[slot] = id;
  time_[slot] = meta.time;
  expires_[slot] = meta.expires;
  session_[slot] = meta.session;
  position_[slot] = meta.position;
  live_[slot] = 1;
  ++live_count_;
  if (meta.expires != kMaxTime) ++expiring_;
}

void RowColumns::clear(Slot slot) noexcept {
  if (live_[slot] == 0) return;
  if (expires_[slot] != kMaxTime) --expiring_;
  live_[slot] = 0;
  --live_count_;
}

bool RowColumns::all_pass(const Filter& filter) const noexcept {
  const bool open =
      !filter.session && filter.after == kMinTime && filter.before == kMaxTime;
  return open && live_count_ == id_.size() &&
         (expiring_ == 0 || filter.now == kMinTime);
}

std::size_t RowColumns::nbytes() const noexcept {
  return id_.capacity() * (sizeof(RowId) + 2 * sizeof(Micros) + sizeof(SessionKey) +
                           sizeof(std::int32_t) + 1);
}

}  // namespace vecall

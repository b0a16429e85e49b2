#pragma once

// What a partition knows of its rows, one column an attribute, by slot; and the test of
// one row against a filter. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vecall/types.hpp"

namespace vecall {

class RowColumns {
 public:
  // Makes room for slots below `slots`. Strong guarantee; `set` cannot fail afterwards.
  void reserve(std::size_t slots);
  void set(Slot slot, RowId id, const RowMeta& meta) noexcept;
  void clear(Slot slot) noexcept;

  [[nodiscard]] std::size_t slots() const noexcept { return id_.size(); }
  [[nodiscard]] std::size_t live() const noexcept { return live_count_; }
  [[nodiscard]] bool is_live(Slot slot) const noexcept { return live_[slot] != 0; }
  [[nodiscard]] RowId id(Slot slot) const noexcept { return id_[slot]; }
  [[nodiscard]] Micros time(Slot slot) const noexcept { return time_[slot]; }
  [[nodiscard]] SessionKey session(Slot slot) const noexcept { return session_[slot]; }
  [[nodiscard]] std::int32_t position(Slot slot) const noexcept {
    return position_[slot];
  }

  // True if a live row of this partition may be returned under `filter`.
  [[nodiscard]] bool passes(Slot slot, const Filter& filter) const noexcept {
    const bool ended = expires_[slot] != kMaxTime && filter.now != kMinTime &&
                       filter.now >= expires_[slot];
    const bool too_late = filter.before != kMaxTime && time_[slot] >= filter.before;
    return live_[slot] != 0 && !ended && !too_late && filter.after <= time_[slot] &&
           (!filter.session || *filter.session == session_[slot]);
  }
  // True if every slot passes, which spares a scan the question.
  [[nodiscard]] bool all_pass(const Filter& filter) const noexcept;

  // The order of equal scores: the newer row, then the smaller id.
  [[nodiscard]] bool precedes(Slot a, Slot b) const noexcept {
    if (time_[a] != time_[b]) return time_[a] > time_[b];
    return id_[a] < id_[b];
  }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  std::vector<RowId> id_;
  std::vector<Micros> time_;
  std::vector<Micros> expires_;
  std::vector<SessionKey> session_;
  std::vector<std::int32_t> position_;
  std::vector<std::uint8_t> live_;
  std::size_t live_count_ = 0;
  std::size_t expiring_ = 0;  // live rows that will expire
};

}  // namespace vecall

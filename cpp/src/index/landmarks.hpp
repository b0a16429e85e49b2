#pragma once

// Where searches of a graph begin: a sample of its rows, spread evenly over them, with
// their codes in one block. A scan of it costs about as much as a walk down the levels
// of a hierarchy, and finds a way into every group of rows that a walk from one entry
// may not reach, because nothing outside of the group is linked to it.
//
// Thread safety: const methods need the partition's lock shared, the others unique.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows/row_table.hpp"
#include "vectors/row_codes.hpp"

namespace vecall {

class Landmarks {
 public:
  // Makes room for `more` rows; add() cannot fail afterwards.
  void reserve(const RowTable& rows, std::size_t more);
  // Takes those of the sample among the slots, which are linked and ascend, as add()
  // would one by one, but reads only the codes that stay. REQUIRES: empty.
  void take(const RowTable& rows, std::vector<Slot> slots);
  // Whether take() may want the slot.
  [[nodiscard]] bool may_want(Slot slot) const noexcept { return wants(slot); }
  // Takes the codes of a linked row if it is of the sample. REQUIRES: reserved.
  void add(const RowTable& rows, Slot slot) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] Slot slot(std::size_t at) const noexcept { return slots_[at]; }
  // Estimates of all of them into `out`, which has room for size().
  void scan(const EncodedQuery& query, float* out) const noexcept;

  [[nodiscard]] std::size_t nbytes() const noexcept {
    return slots_.capacity() * (sizeof(Slot) + sizeof(float)) +
           codes_.capacity() * sizeof(Line);
  }

  static constexpr std::size_t kMost = 1024;

 private:
  struct alignas(64) Line {
    std::uint8_t bytes[64];
  };

  [[nodiscard]] bool wants(Slot slot) const noexcept;
  void put(const RowTable& rows, Slot slot, std::size_t at) noexcept;
  void thin_out(std::size_t row_bytes) noexcept;
  [[nodiscard]] std::uint8_t* codes() noexcept {
    return reinterpret_cast<std::uint8_t*>(codes_.data());
  }

  int rarity_ = 4;  // one row of 2^rarity_ is of the sample
  std::vector<Slot> slots_;
  std::vector<float> factors_;
  std::vector<Line> codes_;
};

}  // namespace vecall

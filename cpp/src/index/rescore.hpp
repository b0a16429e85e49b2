#pragma once

// The second look: rows that an estimate from the high plane kept are scored from all
// planes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "index/dense_query.hpp"
#include "kernels/dispatch.hpp"

namespace vecall {

// The cosine of one row from all that is kept of it. REQUIRES: it has a vector.
double full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                   bool exact) noexcept;

// How far the estimates of a query may be off.
EstimateError estimate_error(const DenseQuery& asked) noexcept;

// Fills scratch.best with the k best of scratch.shortlist, best first.
void rescore(const DenseQuery& asked, DenseScratch& scratch);

// The same for rows that come in blocks, each scored as soon as it is known that it may
// be among the best k: a row is left out only where its estimate lies so far below the
// k-th best cosine found that its known error cannot make up for it.
class BlockRescorer {
 public:
  // Empties scratch.best.
  BlockRescorer(const DenseQuery& asked, DenseScratch& scratch);

  // Rows that pass, by slot, estimate and factor. Uses scratch.positions and
  // scratch.reach; the block is at most as long as they are.
  template <class SlotAt>
  void offer(const float* estimates, const float* factors, std::size_t count,
             SlotAt slot_at);
  // Best first.
  void finish() { top_.finish(); }

 private:
  static constexpr std::size_t kFetched = 16;  // rows that come to the cache together

  void fetch(Slot slot) const noexcept;
  void score(Slot slot) noexcept;
  [[nodiscard]] float floor() const noexcept {
    return static_cast<float>(top_.floor());
  }
  // In units of its factor, how far the estimate of a row may lie below the floor.
  [[nodiscard]] float margin() const noexcept;

  const DenseQuery& asked_;
  DenseScratch& scratch_;
  EstimateError error_;
  float widest_;
  float widest_by_angle_;
  TopK top_;
};

template <class SlotAt>
void BlockRescorer::offer(const float* estimates, const float* factors,
                          std::size_t count, SlotAt slot_at) {
  const auto at_least = kernels::active().at_least;
  std::uint32_t* positions = scratch_.positions.data();
  float* reach = scratch_.reach.data();
  // The best of the first block set a floor that spares most of the others.
  float begun = std::numeric_limits<float>::infinity();
  if (floor() == -begun && count >= asked_.k) {
    begun = rank_value(estimates, count, asked_.k);
    const std::size_t found = at_least(estimates, count, begun, positions);
    for (std::size_t i = 0; i < found; ++i) fetch(slot_at(positions[i]));
    for (std::size_t i = 0; i < found; ++i) score(slot_at(positions[i]));
  }
  const float wide = margin();
  for (std::size_t i = 0; i < count; ++i) {
    reach[i] = estimates[i] + (wide * factors[i] + EstimateError::kFloatError);
  }
  const std::size_t found = at_least(reach, count, floor(), positions);
  for (std::size_t begin = 0; begin < found; begin += kFetched) {
    const std::size_t end = std::min(found, begin + kFetched);
    const float least = floor();  // has risen meanwhile
    Slot slots[kFetched];
    std::size_t waiting = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t at = positions[i];
      if (reach[at] < least || estimates[at] >= begun) continue;
      slots[waiting] = slot_at(at);
      fetch(slots[waiting++]);
    }
    for (std::size_t i = 0; i < waiting; ++i) score(slots[i]);
  }
}

}  // namespace vecall

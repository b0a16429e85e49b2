#pragma once

// The second look: rows that an estimate from the high plane let pass are scored from
// all planes. Not thread-safe: one rescorer a query; callers hold the lock of the
// rows' partition.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "index/dense_query.hpp"
#include "kernels/dispatch.hpp"

namespace vecall {

// The cosine of one row from all that is stored of it. REQUIRES: it has a vector.
double full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                   bool exact) noexcept;

// Brings what full_cosine() reads beside the high plane to the cache.
void prefetch_low(const RowTable& rows, Slot slot) noexcept;

// How far the estimates of a query may be off.
EstimateError estimate_error(const DenseQuery& query) noexcept;

// Fills scratch.best with the k best of scratch.shortlist, best first.
void rescore(const DenseQuery& query, DenseScratch& scratch);

// The k best of rows that come in blocks, each scored as soon as it is known that it
// may be one of them: a row is left out only where its estimate lies so far below the
// k-th best cosine found that its known error cannot make up for it.
class BlockRescorer {
 public:
  static constexpr float kOut = -4.0F;  // below the floor, however low it is

  // Empties scratch.best.
  BlockRescorer(const DenseQuery& query, DenseScratch& scratch);

  // Rows that need no block.
  void offer(const Shortlist& shortlist);

  // Rows that pass, by slot, estimate and factor. Uses scratch.positions and
  // scratch.reach; the block is at most as long as they are. Returns how many
  // rows were to be scored; if they are more than `most`, the block is to be offered
  // whole instead.
  template <class SlotAt>
  std::size_t offer(const float* estimates, const float* factors, std::size_t count,
                    SlotAt slot_at, std::size_t most = static_cast<std::size_t>(-1));

  // Whether rows can be scored by offer_whole().
  [[nodiscard]] bool scores_whole_blocks() const noexcept;
  // `count` rows of a chunk from `first` on, all of them scored: faster than by one
  // where estimates rule out few. Those that passes(slot) are offered. Returns how many
  // rows their estimates would hardly have ruled out.
  template <class Passes>
  std::size_t offer_whole(Slot first, std::size_t count, Passes passes);
  // The k-th best cosine so far, -inf while there are fewer.
  [[nodiscard]] float floor() const noexcept {
    return static_cast<float>(top_.floor());
  }
  // Best first.
  void finish() { top_.finish(); }

 private:
  static constexpr std::size_t kFetched = 16;  // rows that come to the cache together
  static constexpr std::size_t kSampled = 8;   // one row of so many is counted
  static constexpr std::size_t kPart = 256;    // rows among which equal ones are sought

  void fetch(Slot slot) const noexcept;
  void score(Slot slot);
  // Cosines of a whole block into scratch.cosines, and how far they lie above the floor
  // into scratch.reach.
  void score_block(Slot first, std::size_t count);
  // The rows of a part of the block that the floor does not keep out, their places in
  // the part in scratch.positions; returns how many.
  std::size_t best_of_part(Slot first, std::size_t begin, std::size_t count) noexcept;
  // Whether one of the rows precedes the last of the best, were it equal.
  [[nodiscard]] bool any_precedes(Slot first, std::size_t count) const noexcept;
  // About how many rows of the block their estimates would not have ruled out.
  [[nodiscard]] std::size_t near(Slot first, std::size_t count) const noexcept;
  // In units of its factor, how far the estimate of a row may lie below the floor.
  [[nodiscard]] float margin() const noexcept;
  // At least the cosine of a row, as far as its estimate says.
  static float reach(float estimate, float factor, float margin) noexcept {
    return estimate + (margin * factor + EstimateError::kFloatError);
  }

  const DenseQuery& query_;
  DenseScratch& scratch_;
  EstimateError error_;
  float widest_;
  float widest_by_angle_;
  TopK top_;
};

template <class SlotAt>
std::size_t BlockRescorer::offer(const float* estimates, const float* factors,
                                 std::size_t count, SlotAt slot_at, std::size_t most) {
  const auto at_least = kernels::active().at_least;
  std::uint32_t* positions = scratch_.positions.data();
  float* reach = scratch_.reach.data();
  // The best of the first block set a floor that spares most of the others.
  float begun = std::numeric_limits<float>::infinity();
  if (floor() == -begun && count >= query_.k) {
    begun = rank_value(estimates, count, query_.k);
    const std::size_t found = at_least(estimates, count, begun, positions);
    if (found > most) return found;  // they are equal
    for (std::size_t i = 0; i < found; ++i) fetch(slot_at(positions[i]));
    for (std::size_t i = 0; i < found; ++i) score(slot_at(positions[i]));
    scratch_.scored.clear();
    for (std::size_t i = 0; i < found; ++i) {
      scratch_.scored.push_back(slot_at(positions[i]));
    }
  }
  const float wide = margin();
  for (std::size_t i = 0; i < count; ++i) {
    reach[i] = BlockRescorer::reach(estimates[i], factors[i], wide);
  }
  const std::size_t found = at_least(reach, count, floor(), positions);
  if (found > most) return found;
  scratch_.scored.clear();
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
  return found;
}

template <class Passes>
std::size_t BlockRescorer::offer_whole(Slot first, std::size_t count, Passes passes) {
  score_block(first, count);
  // Of equal rows first those that precede the others, which the floor then keeps out.
  const Slot last = first + static_cast<Slot>(count) - 1;
  const bool forward = query_.rows.precedes(first, last);
  for (std::size_t done = 0; done < count; done += kPart) {
    const std::size_t part = std::min(kPart, count - done);
    const std::size_t begin = forward ? done : count - done - part;
    const std::size_t found = best_of_part(first, begin, part);
    for (std::size_t i = 0; i < found; ++i) {
      const std::size_t at = begin + scratch_.positions[forward ? i : found - 1 - i];
      const Scored row{first + static_cast<Slot>(at), scratch_.cosines[at]};
      if (top_.wants(row.score) && passes(row.slot)) top_.offer(row);
    }
  }
  return near(first, count);
}

}  // namespace vecall

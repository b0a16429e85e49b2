#pragma once

// Rules rows out by their signs, before anything else of them is read. Rows that are
// likely among the best are scored at once, which raises the floor; what else may be is
// left for the end, when the floor rules most of it out. Where signs rule out too few
// rows, they rest for some blocks, the longer the more often. Not thread-safe: one a
// query; callers hold the lock of the rows' partition.

#include <cstddef>
#include <cstdint>

#include "index/rescore.hpp"

namespace vecall {

class SignSieve {
 public:
  // What it takes is offered to the rescorer, which outlives it.
  SignSieve(const DenseQuery& query, DenseScratch& scratch, BlockRescorer& rescorer);

  // Whether it would look at the block of rows that begins here: to be asked once of
  // each block.
  [[nodiscard]] bool wants(Slot first);
  // REQUIRES for the rest: wants() was true.
  [[nodiscard]] const kernels::SignQuery& code() const noexcept {
    return scratch_.signs.code();
  }
  // Takes a block, of which `sums` has the whole groups, unless too many may be among
  // the best. REQUIRES: scratch.positions and scratch.reach have room for it.
  template <class Passes>
  bool take(Slot first, std::size_t count, const std::uint16_t* sums, Passes passes);
  // Offers what was taken and not yet ruled out.
  void finish();

 private:
  static constexpr float kLeast = -1.5F;          // below any cosine
  static constexpr std::size_t kSievedShare = 3;  // one row of so many may be left
  static constexpr std::size_t kLongestRest = 64;
  static constexpr std::size_t kNear = 8;  // rows whose planes are fetched together
  static constexpr float kLikely = 0.4F;   // of the margin

  // Takes those of the rows that may be whose signs allow so much of the margin.
  void take_maybe(std::size_t begin, std::size_t count, float share);
  void take_near(Slot slot);
  void fetch(Slot slot) const noexcept;
  void offer_near();

  const DenseQuery& query_;
  DenseScratch& scratch_;
  BlockRescorer& rescorer_;
  EstimateError error_;
  bool is_encoded_ = false;
  std::size_t rests_ = 0;
  std::size_t next_rest_ = 2;
};

template <class Passes>
bool SignSieve::take(Slot first, std::size_t count, const std::uint16_t* sums,
                     Passes passes) {
  const float floor = rescorer_.floor();
  const EncodedSigns::Reach reach = scratch_.signs.reach(error_.sine(floor));
  const float* factors = query_.rows.signs(first)->factors(first);
  const std::uint32_t* positions = scratch_.positions.data();
  const float* reaches = scratch_.reach.data();
  const std::size_t whole = count / kernels::kSignGroup * kernels::kSignGroup;
  const std::size_t found = kernels::active().sums_reaching(
      code(), sums, factors, whole, reach.plus, floor + reach.minus,
      scratch_.positions.data(), scratch_.reach.data());
  if (found * kSievedShare > count) {
    rests_ = next_rest_;
    next_rest_ = std::min(4 * next_rest_, kLongestRest);
    return false;
  }
  // No branch could predict which rows are likely.
  SignedRows& maybe = scratch_.maybe;
  std::size_t size = maybe.slots.size();
  maybe.resize(size + found);
  std::vector<Slot>& near = scratch_.near;
  const std::size_t waiting = near.size();
  near.resize(waiting + found);
  Slot* likely = near.data() + waiting;
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t at = positions[i];
    const Slot slot = first + static_cast<Slot>(at);
    if (!passes(slot)) continue;
    const float estimate = reaches[i] - factors[at] * reach.plus;
    const std::size_t is_likely = estimate >= floor ? 1 : 0;
    maybe.slots[size] = *likely = slot;
    maybe.estimates[size] = estimate;
    maybe.factors[size] = factors[at];
    likely += is_likely;
    size += 1 - is_likely;
  }
  maybe.resize(size);
  near.resize(static_cast<std::size_t>(likely - near.data()));
  for (std::size_t i = waiting; i < near.size(); ++i) {
    fetch(near[i]);
    prefetch_low(query_.rows, near[i]);
  }
  for (std::size_t at = whole; at < count; ++at) {
    const Slot slot = first + static_cast<Slot>(at);
    if (passes(slot)) take_near(slot);
  }
  if (scratch_.near.size() >= kNear) offer_near();
  return true;
}

}  // namespace vecall

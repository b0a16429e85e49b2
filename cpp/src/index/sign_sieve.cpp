#include "index/sign_sieve.hpp"

#include <algorithm>

#include "index/gather.hpp"

namespace vecall {

SignSieve::SignSieve(const DenseQuery& query, DenseScratch& scratch,
                     BlockRescorer& rescorer)
    : query_(query), scratch_(scratch), rescorer_(rescorer) {
  scratch.near.clear();
  scratch.maybe.resize(0);
}

bool SignSieve::wants(Slot first) {
  if (query_.rows.signs(first) == nullptr || rescorer_.floor() < kLeast) return false;
  if (rests_ > 0) {
    --rests_;
    return false;
  }
  if (!is_encoded_) {
    scratch_.signs.encode(query_.rows.space(), query_.encoded);
    error_.rounding = scratch_.signs.rounding();
    is_encoded_ = true;
  }
  return true;
}

void SignSieve::finish() {
  offer_near();
  SignedRows& maybe = scratch_.maybe;
  for (const float share : {kLikely, 1.0F}) {
    for (std::size_t at = 0; at < maybe.slots.size(); at += kBlockRows) {
      take_maybe(at, std::min(kBlockRows, maybe.slots.size() - at), share);
    }
    offer_near();
  }
}

void SignSieve::take_maybe(std::size_t begin, std::size_t count, float share) {
  SignedRows& maybe = scratch_.maybe;
  float* estimates = maybe.estimates.data() + begin;
  const float* factors = maybe.factors.data() + begin;
  float* reaches = scratch_.reach.data();
  const float floor = rescorer_.floor();
  const EncodedSigns::Reach reach = scratch_.signs.reach(error_.sine(floor) * share);
  for (std::size_t i = 0; i < count; ++i) {
    reaches[i] = estimates[i] + factors[i] * reach.plus;
  }
  const std::size_t found = kernels::active().at_least(
      reaches, count, floor + reach.minus, scratch_.positions.data());
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t at = scratch_.positions[i];
    estimates[at] = BlockRescorer::kOut;  // taken
    take_near(maybe.slots[begin + at]);
    if (share < 1.0F) prefetch_low(query_.rows, maybe.slots[begin + at]);
  }
}

void SignSieve::take_near(Slot slot) {
  scratch_.near.push_back(slot);
  fetch(slot);
}

void SignSieve::fetch(Slot slot) const noexcept {
  const std::uint8_t* high = query_.rows.high(slot);
  for (std::size_t at = 0; at < query_.rows.space().high_bytes(); at += 64) {
    __builtin_prefetch(high + at);
  }
}

void SignSieve::offer_near() {
  gather(query_, scratch_.near, scratch_,
         [this](const Slot* slots, const float* estimates, const float* factors,
                std::size_t count) {
           rescorer_.offer(estimates, factors, count,
                           [slots](std::size_t i) { return slots[i]; });
         });
  scratch_.near.clear();
}

}  // namespace vecall

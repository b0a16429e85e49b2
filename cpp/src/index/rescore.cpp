#include "index/rescore.hpp"

#include <algorithm>
#include <cmath>

namespace vecall {

namespace {

// Deviations by which a row's estimate may lie below the k-th best cosine found so far.
constexpr float kRescoreDeviations = 4.0F;

// With few dimensions the error has a bound that is nearer than its tail: half a step a
// dimension.
float deviations(const RowTable& rows, float wanted) noexcept {
  const auto dim = static_cast<float>(rows.space().dim());
  return std::min(wanted, 0.5F * std::sqrt(dim) / kEstimateDeviation + 0.5F);
}

void prefetch(const RowTable& rows, Slot slot) noexcept {
  const std::uint8_t* low = rows.low(slot);
  if (low == nullptr) return;
  for (std::size_t at = 0; at < rows.space().low_bytes(); at += 64) {
    __builtin_prefetch(low + at);
  }
}

}  // namespace

float full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                  bool exact) noexcept {
  const RowSpace& space = rows.space();
  if (space.keeps_float32() && (exact || space.is_short())) {
    return query.exact_cosine(rows.floats(slot));
  }
  return query.cosine(space, rows.high(slot), rows.low(slot), rows.rest(slot),
                      rows.factor(slot), rows.step(slot));
}

float shortlist_margin(const RowTable& rows) noexcept {
  return deviations(rows, kShortlistDeviations) * kEstimateDeviation *
         rows.largest_factor();
}

void rescore(const DenseQuery& asked, DenseScratch& scratch) {
  const RowTable& rows = asked.rows;
  Shortlist& shortlist = scratch.shortlist;
  shortlist.settle();
  TopK top(scratch.best, asked.k, rows);
  const auto score = [&](Slot slot) {
    const float cosine = full_cosine(rows, asked.query, slot, asked.exact);
    if (top.wants(cosine)) top.offer({slot, cosine});
  };
  // The best estimates first: they set a floor that spares most of the others.
  const float kth = shortlist.kth();
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    if (shortlist.estimate(i) >= kth) prefetch(rows, shortlist.slot(i));
  }
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    if (shortlist.estimate(i) >= kth) score(shortlist.slot(i));
  }
  const float margin = deviations(rows, kRescoreDeviations) * kEstimateDeviation;
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    const Slot slot = shortlist.slot(i);
    const float estimate = shortlist.estimate(i);
    if (estimate < kth && estimate + margin * rows.factor(slot) >= top.floor()) {
      score(slot);
    }
  }
  top.finish();
}

}  // namespace vecall

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
  const RowCodes row = rows.codes(slot);
  if (row.low == nullptr) return;
  for (std::size_t at = 0; at < rows.space().low_bytes(); at += 64) {
    __builtin_prefetch(row.low + at);
  }
  __builtin_prefetch(row.step);
}

}  // namespace

float full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                  bool exact) noexcept {
  const RowCodes row = rows.codes(slot);
  if (row.floats != nullptr && (exact || rows.space().is_short())) {
    return query.exact_cosine(row.floats);
  }
  return query.cosine(rows.space(), row.high, row.low, row.rest, *row.factor,
                      *row.step);
}

float shortlist_margin(const RowTable& rows) noexcept {
  return deviations(rows, kShortlistDeviations) * kEstimateDeviation *
         rows.largest_factor();
}

void rescore(const DenseQuery& asked, DenseScratch& scratch) {
  const RowTable& rows = asked.rows;
  const std::vector<Scored>& kept = scratch.shortlist.kept();
  const float kth = scratch.shortlist.kth();
  const float floor = scratch.shortlist.floor();
  TopK top(scratch.best, asked.k, rows);
  const auto score = [&](Slot slot) {
    const float cosine = full_cosine(rows, asked.query, slot, asked.exact);
    if (top.wants(cosine)) top.offer({slot, cosine});
  };
  // The best estimates first: they set a floor that spares most of the others.
  auto& second = scratch.slots;
  second.clear();
  for (std::uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i].score >= kth) {
      prefetch(rows, kept[i].slot);
      second.push_back(i);
    }
  }
  for (const std::uint32_t i : second) score(kept[i].slot);
  const float margin = deviations(rows, kRescoreDeviations) * kEstimateDeviation;
  for (const Scored& row : kept) {
    if (row.score >= kth || row.score < floor) continue;
    if (row.score + margin * rows.factor(row.slot) < top.floor()) continue;
    score(row.slot);
  }
  top.finish();
}

}  // namespace vecall

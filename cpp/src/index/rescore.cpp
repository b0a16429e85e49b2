#include "index/rescore.hpp"

#include <algorithm>
#include <cmath>

#include "vecall/assert.hpp"

namespace vecall {

namespace {

// Deviations by which a row's estimate may lie below the k-th best estimate.
constexpr float kShortlistDeviations = 5.0F;
constexpr float kShortlistDeviationsByAngle = 8.0F;
// And below the k-th best cosine found so far.
constexpr float kRescoreDeviations = 4.0F;
constexpr float kRescoreDeviationsByAngle = 5.0F;

// With few dimensions the error has a bound that is nearer than its tail: half a step a
// dimension.
float deviations(const RowTable& rows, float wanted) noexcept {
  const auto dim = static_cast<float>(rows.space().dim());
  return std::min(wanted, 0.5F * std::sqrt(dim) / kEstimateDeviation + 0.5F);
}

bool is_by_float32(const RowSpace& space, bool exact) noexcept {
  return space.keeps_float32() && (exact || space.is_short());
}

}  // namespace

void prefetch_low(const RowTable& rows, Slot slot) noexcept {
  const std::uint8_t* low = rows.low(slot);
  if (low == nullptr) return;
  for (std::size_t at = 0; at < rows.space().low_bytes(); at += 64) {
    __builtin_prefetch(low + at);
  }
}

double full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                   bool exact) noexcept {
  VECALL_ASSERT(rows.has_vector(slot));
  const RowSpace& space = rows.space();
  if (is_by_float32(space, exact)) {
    const float cosine = query.exact_cosine(rows.floats(slot));
    return std::isnan(cosine) ? -2.0F : cosine;  // of a damaged file that is mapped
  }
  return query.cosine(space, rows.high(slot), rows.low(slot), rows.rest(slot),
                      rows.factor(slot), rows.step(slot));
}

EstimateError estimate_error(const DenseQuery& query) noexcept {
  const RowTable& rows = query.rows;
  return {kEstimateDeviation * rows.largest_factor(), query.encoded.rounding(),
          deviations(rows, kShortlistDeviations),
          deviations(rows, kShortlistDeviationsByAngle)};
}

void rescore(const DenseQuery& query, DenseScratch& scratch) {
  scratch.shortlist.settle();
  BlockRescorer rescorer(query, scratch);
  rescorer.offer(scratch.shortlist);
  rescorer.finish();
}

BlockRescorer::BlockRescorer(const DenseQuery& query, DenseScratch& scratch)
    : query_(query),
      scratch_(scratch),
      error_(estimate_error(query)),
      widest_(deviations(query.rows, kRescoreDeviations)),
      widest_by_angle_(deviations(query.rows, kRescoreDeviationsByAngle)),
      top_(scratch.best, query.k, query.rows) {
  scratch.scored.clear();
}

void BlockRescorer::offer(const Shortlist& shortlist) {
  // The best estimates first: they set a floor that spares most of the others.
  const float kth = shortlist.kth();
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    if (shortlist.estimate(i) >= kth) fetch(shortlist.slot(i));
  }
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    if (shortlist.estimate(i) >= kth) score(shortlist.slot(i));
  }
  // Of the others those that may be, all on their way to the cache before the first.
  scratch_.positions.clear();
  const float wide = margin();
  const auto may_be = [&](std::size_t i) {
    return reach(shortlist.estimate(i), query_.rows.factor(shortlist.slot(i)), wide) >=
           floor();
  };
  for (std::size_t i = 0; i < shortlist.size(); ++i) {
    if (shortlist.estimate(i) >= kth || !may_be(i)) continue;
    scratch_.positions.push_back(static_cast<std::uint32_t>(i));
    fetch(shortlist.slot(i));
  }
  for (const std::uint32_t i : scratch_.positions) {
    if (may_be(i)) score(shortlist.slot(i));
  }
}

void BlockRescorer::fetch(Slot slot) const noexcept {
  prefetch_low(query_.rows, slot);
}

void BlockRescorer::score(Slot slot) {
  const double cosine = full_cosine(query_.rows, query_.encoded, slot, query_.exact);
  if (top_.wants(cosine)) top_.offer({slot, cosine});
}

bool BlockRescorer::scores_whole_blocks() const noexcept {
  const RowSpace& space = query_.rows.space();
  return space.has_low() && !is_by_float32(space, query_.exact);
}

void BlockRescorer::score_block(Slot first, std::size_t count) {
  const RowTable& rows = query_.rows;
  scratch_.cosines.resize(std::max(scratch_.cosines.size(), count));
  double* cosines = scratch_.cosines.data();
  query_.encoded.cosines(rows.space(), rows.high(first), rows.low(first),
                         rows.rest(first), rows.steps(first), count, cosines);
  float* above = scratch_.reach.data();
  const double least = top_.floor();
  for (std::size_t i = 0; i < count; ++i) {
    above[i] = static_cast<float>(cosines[i] - least);  // 0 for equal ones alone
  }
  for (const Slot slot : scratch_.scored) above[slot - first] = kOut;
  scratch_.scored.clear();
}

std::size_t BlockRescorer::best_of_part(Slot first, std::size_t begin,
                                        std::size_t count) noexcept {
  constexpr float kAbove = std::numeric_limits<float>::min();
  const auto& kernel = kernels::active();
  const float* above = scratch_.reach.data() + begin;
  const std::size_t better = kernel.reaching(above, count, kAbove);
  const bool equal_too = better < kernel.reaching(above, count, 0.0F) &&
                         any_precedes(first + static_cast<Slot>(begin), count);
  return kernel.at_least(above, count, equal_too ? 0.0F : kAbove,
                         scratch_.positions.data());
}

bool BlockRescorer::any_precedes(Slot first, std::size_t count) const noexcept {
  const RowTable& rows = query_.rows;
  const Slot last = top_.last().slot;
  const RowId id = rows.id(last);
  const RowId* ids = rows.ids(first);
  const Micros* times = rows.times(first);
  bool found = false;
  if (times == nullptr) {
    for (std::size_t i = 0; i < count; ++i) found |= ids[i] < id;
    return found;
  }
  const Micros time = rows.time(last);
  for (std::size_t i = 0; i < count; ++i) {
    found |= times[i] > time || (times[i] == time && ids[i] < id);
  }
  return found;
}

std::size_t BlockRescorer::near(Slot first, std::size_t count) const noexcept {
  // An estimate is as likely above the cosine as below.
  const float* factors = query_.rows.factors(first);
  const float wide = margin();
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kSampled) {
    found += scratch_.reach[i] + wide * factors[i] >= 0.0F ? 1 : 0;
  }
  return found * kSampled;
}

float BlockRescorer::margin() const noexcept {
  // A row whose cosine reaches the floor is at no wider an angle.
  return kEstimateDeviation *
         std::min(widest_, widest_by_angle_ * error_.sine(floor()));
}

}  // namespace vecall

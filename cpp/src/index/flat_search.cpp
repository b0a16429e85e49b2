#include "index/flat_search.hpp"

#include <algorithm>
#include <cmath>

#include "index/rescore.hpp"
#include "kernels/dispatch.hpp"

namespace vecall {

namespace {

constexpr std::size_t kBlockRows = 1024;  // their estimates stay in L1
constexpr std::size_t kGathered = 64;     // rows fetched together

// A gathered row costs about this many rows of a scan.
constexpr std::size_t kGatherCost = 3;

// Gathers cosines or estimates of them. An estimate is spread wider than the cosine by
// what its rounding adds, which is known and taken off.
class Spread {
 public:
  void add(const float* estimates, const float* factors, std::size_t count) noexcept {
    float sums[4] = {};
    float squares[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      for (std::size_t lane = 0; lane < 4; ++lane) {
        const float x = estimates[i + lane];
        const float noise = kEstimateDeviation * factors[i + lane];
        sums[lane] += x;
        squares[lane] += x * x - noise * noise;
      }
    }
    for (; i < count; ++i) add(estimates[i], factors[i]);
    sum_ += static_cast<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
    squares_ +=
        static_cast<double>((squares[0] + squares[1]) + (squares[2] + squares[3]));
    count_ += count / 4 * 4;
  }
  void add(float estimate, float factor) noexcept {
    const double noise = static_cast<double>(kEstimateDeviation) * factor;
    sum_ += estimate;
    squares_ += static_cast<double>(estimate) * estimate - noise * noise;
    ++count_;
  }
  [[nodiscard]] CosineSpread result() const noexcept {
    if (count_ == 0) return {};
    const double mean = sum_ / static_cast<double>(count_);
    const double variance = squares_ / static_cast<double>(count_) - mean * mean;
    return {mean, std::sqrt(std::max(variance, 0.0))};
  }

 private:
  double sum_ = 0;
  double squares_ = 0;
  std::size_t count_ = 0;
};

// Where estimates rule out less than 4 rows of 5, to score whole blocks without them is
// faster than one row at a time; where they are there already, less than 3 of 5.
constexpr std::size_t kWholeShare = 5;
constexpr std::size_t kWholeShareAfter = 2;

// Every row of the partition in order.
CosineSpread scan_all(const DenseQuery& query, DenseScratch& scratch,
                      BlockRescorer& rescorer) {
  const auto& kernel = kernels::active();
  const RowTable& rows = query.rows;
  const bool every_row = query.selection.selects_all() && rows.all_have_vectors();
  const bool want_spread = query.want_spread && !rows.space().is_short();
  float* estimates = scratch.estimates.data();
  const auto passes = [&](Slot slot) {
    return every_row || (rows.has_vector(slot) && query.selection.contains(slot));
  };
  const bool may_be_whole = rescorer.scores_whole_blocks();
  bool whole = false;
  Spread spread;
  for (std::size_t begin = 0; begin < rows.slots();) {
    const auto first = static_cast<Slot>(begin);
    const std::size_t rows_here = std::min(kBlockRows, rows.rows_in_chunk(first));
    const std::size_t most = may_be_whole ? rows_here / kWholeShare : rows_here;
    const std::size_t most_after = kWholeShareAfter * most;
    begin += rows_here;
    if (whole) {
      whole = rescorer.offer_whole(first, rows_here, passes) > most;
      continue;
    }
    std::size_t count = rows_here;
    std::size_t found = 0;
    const float* factors = rows.factors(first);
    kernel.scan(query.encoded.code(), rows.high(first), factors, count, estimates);
    if (every_row) {
      const auto slot_at = [first](std::size_t i) {
        return first + static_cast<Slot>(i);
      };
      found = rescorer.offer(estimates, factors, count, slot_at, most_after);
    } else {
      scratch.slots.clear();
      scratch.factors.resize(kBlockRows);
      for (std::size_t i = 0; i < count; ++i) {
        const Slot slot = first + static_cast<Slot>(i);
        if (!passes(slot)) continue;
        estimates[scratch.slots.size()] = estimates[i];
        scratch.factors[scratch.slots.size()] = factors[i];
        scratch.slots.push_back(slot);
      }
      count = scratch.slots.size();
      factors = scratch.factors.data();
      const auto slot_at = [&](std::size_t i) { return scratch.slots[i]; };
      found = rescorer.offer(estimates, factors, count, slot_at, most_after);
    }
    if (found > most_after) found = rescorer.offer_whole(first, rows_here, passes);
    whole = found > most && !want_spread;  // the spread is made of estimates
    if (want_spread) spread.add(estimates, factors, count);
  }
  return spread.result();
}

// Calls each(slots, estimates, factors, count) for blocks of the slots.
template <class Each>
void gather(const DenseQuery& query, std::span<const Slot> slots, DenseScratch& scratch,
            Each each) {
  const auto& kernel = kernels::active();
  const RowTable& rows = query.rows;
  const std::size_t bytes = rows.space().high_bytes();
  scratch.estimates.resize(kBlockRows);
  scratch.codes.resize(kBlockRows);
  scratch.factors.resize(kBlockRows);
  for (std::size_t block = 0; block < slots.size(); block += kBlockRows) {
    const std::size_t rows_here = std::min(kBlockRows, slots.size() - block);
    const Slot* here = slots.data() + block;
    for (std::size_t begin = 0; begin < rows_here; begin += kGathered) {
      const std::size_t end = std::min(rows_here, begin + kGathered);
      for (std::size_t i = begin; i < end; ++i) {
        scratch.codes[i] = rows.high(here[i]);
        scratch.factors[i] = rows.factor(here[i]);
        for (std::size_t line = 0; line < bytes; line += 64) {
          __builtin_prefetch(scratch.codes[i] + line);
        }
      }
      kernel.gather(query.encoded.code(), scratch.codes.data() + begin,
                    scratch.factors.data() + begin, end - begin,
                    scratch.estimates.data() + begin);
    }
    each(here, scratch.estimates.data(), scratch.factors.data(), rows_here);
  }
}

CosineSpread scan_selected(const DenseQuery& query, DenseScratch& scratch,
                           BlockRescorer& rescorer) {
  scratch.slots.clear();
  query.selection.for_each([&](Slot slot) {
    if (query.rows.has_vector(slot)) scratch.slots.push_back(slot);
  });
  Spread spread;
  gather(query, scratch.slots, scratch,
         [&](const Slot* slots, const float* estimates, const float* factors,
             std::size_t count) {
           spread.add(estimates, factors, count);
           rescorer.offer(estimates, factors, count,
                          [slots](std::size_t i) { return slots[i]; });
         });
  return spread.result();
}

// Of so few rows the noise of the estimates would show in mean and deviation.
constexpr std::size_t kFewRows = 64;

// The rows that may pass: of a selection exact, else all that have a vector.
std::size_t passing_rows(const DenseQuery& query) noexcept {
  return query.selection.selects_all() ? query.rows.vectors() : query.selection.count();
}

// Of about `limit` of the rows that pass, evenly chosen, or of all if there are less
// than twice as many. Cosines of short vectors and of few rows are exact: estimates in
// 4 bits would be too rough.
CosineSpread spread_of(const DenseQuery& query, std::size_t limit,
                       DenseScratch& scratch) {
  const RowTable& rows = query.rows;
  const std::size_t passing = passing_rows(query);
  const std::size_t step = std::max<std::size_t>(1, passing / limit);
  scratch.slots.clear();
  const auto add = [&](Slot slot) {
    if (rows.has_vector(slot) && query.selection.contains(slot)) {
      scratch.slots.push_back(slot);
    }
  };
  // Every step-th row that passes, or those of every step-th slot: what visits less.
  if (!query.selection.selects_all() && passing <= rows.slots() / step) {
    std::size_t left = 0;
    query.selection.for_each([&](Slot slot) {
      if (left == 0) add(slot);
      left = left == 0 ? step - 1 : left - 1;
    });
  } else {
    for (std::size_t slot = 0; slot < rows.slots(); slot += step) {
      add(static_cast<Slot>(slot));
    }
  }
  Spread spread;
  if (rows.space().is_short() || scratch.slots.size() <= kFewRows) {
    for (const Slot slot : scratch.slots) {
      const double cosine = full_cosine(rows, query.encoded, slot, query.exact);
      spread.add(static_cast<float>(cosine), 0.0F);
    }
  } else {
    gather(query, scratch.slots, scratch,
           [&](const Slot*, const float* estimates, const float* factors,
               std::size_t count) { spread.add(estimates, factors, count); });
  }
  return spread.result();
}

}  // namespace

CosineSpread flat_search(const DenseQuery& query, DenseScratch& scratch) {
  scratch.estimates.resize(kBlockRows);
  scratch.positions.resize(kBlockRows);
  scratch.reach.resize(kBlockRows);
  BlockRescorer rescorer(query, scratch);
  const bool few = !query.selection.selects_all() &&
                   query.selection.count() * kGatherCost < query.rows.slots();
  const CosineSpread spread = few ? scan_selected(query, scratch, rescorer)
                                  : scan_all(query, scratch, rescorer);
  rescorer.finish();
  const std::size_t passing = passing_rows(query);
  const bool is_exact = query.rows.space().is_short() || passing <= kFewRows;
  if (query.want_spread && passing > 0 && is_exact) {
    return spread_of(query, passing, scratch);
  }
  return spread;
}

void scan_slots(const DenseQuery& query, std::span<const Slot> slots,
                DenseScratch& scratch) {
  gather(
      query, slots, scratch,
      [&](const Slot* here, const float* estimates, const float*, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
          if (estimates[i] >= scratch.shortlist.floor() &&
              query.rows.has_vector(here[i]) && query.selection.contains(here[i])) {
            scratch.shortlist.offer(here[i], estimates[i]);
          }
        }
      });
}

CosineSpread sampled_spread(const DenseQuery& query, std::size_t count,
                            DenseScratch& scratch) {
  return spread_of(query, count, scratch);
}

}  // namespace vecall

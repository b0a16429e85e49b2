#include "index/flat_search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "index/gather.hpp"
#include "index/rescore.hpp"
#include "index/sign_sieve.hpp"
#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

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

void make_room(DenseScratch& scratch) {
  scratch.estimates.resize(kBlockRows);
  scratch.positions.resize(kBlockRows);
  scratch.reach.resize(kBlockRows);
}

// One query's look at every row of the partition, block by block in order.
class WholeScan {
 public:
  WholeScan(const DenseQuery& query, DenseScratch& scratch)
      : query_(query),
        scratch_(scratch),
        rescorer_(query, scratch),
        sieve_(query, scratch, rescorer_),
        every_row_(query.selection.selects_all() && query.rows.all_have_vectors()),
        want_spread_(query.want_spread && !query.rows.space().is_short()),
        may_be_whole_(rescorer_.scores_whole_blocks()) {
    make_room(scratch);
  }
  WholeScan(const WholeScan&) = delete;
  WholeScan& operator=(const WholeScan&) = delete;
  ~WholeScan() = default;

  // The query to the signs of the block that begins here, or null if they are not
  // wanted. To be asked once of each block.
  [[nodiscard]] const kernels::SignQuery* signs_wanted(Slot first) {
    return !whole_ && !want_spread_ && sieve_.wants(first) ? &sieve_.code() : nullptr;
  }
  // `sums` are those of the signs, null if they were not wanted.
  void look_at(Slot first, std::size_t rows_here, const std::uint16_t* sums) {
    const auto passes = [this](Slot slot) {
      return every_row_ ||
             (query_.rows.has_vector(slot) && query_.selection.contains(slot));
    };
    const std::size_t most = may_be_whole_ ? rows_here / kWholeShare : rows_here;
    if (whole_) {
      whole_ = rescorer_.offer_whole(first, rows_here, passes) > most;
      return;
    }
    if (sums != nullptr && sieve_.take(first, rows_here, sums, passes)) return;
    const std::size_t most_after = kWholeShareAfter * most;
    float* estimates = scratch_.estimates.data();
    std::size_t count = rows_here;
    std::size_t found = 0;
    const float* factors = query_.rows.factors(first);
    kernels::active().scan(query_.encoded.code(), query_.rows.high(first), factors,
                           count, estimates);
    if (every_row_) {
      const auto slot_at = [first](std::size_t i) {
        return first + static_cast<Slot>(i);
      };
      found = rescorer_.offer(estimates, factors, count, slot_at, most_after);
    } else {
      scratch_.slots.clear();
      scratch_.factors.resize(kBlockRows);
      for (std::size_t i = 0; i < count; ++i) {
        const Slot slot = first + static_cast<Slot>(i);
        if (!passes(slot)) continue;
        estimates[scratch_.slots.size()] = estimates[i];
        scratch_.factors[scratch_.slots.size()] = factors[i];
        scratch_.slots.push_back(slot);
      }
      count = scratch_.slots.size();
      factors = scratch_.factors.data();
      const auto slot_at = [this](std::size_t i) { return scratch_.slots[i]; };
      found = rescorer_.offer(estimates, factors, count, slot_at, most_after);
    }
    if (found > most_after) found = rescorer_.offer_whole(first, rows_here, passes);
    whole_ = found > most && !want_spread_;  // the spread is made of estimates
    if (want_spread_) spread_.add(estimates, factors, count);
  }
  CosineSpread finish() {
    sieve_.finish();
    rescorer_.finish();
    return spread_.result();
  }

 private:
  const DenseQuery& query_;
  DenseScratch& scratch_;
  BlockRescorer rescorer_;
  SignSieve sieve_;
  Spread spread_;
  const bool every_row_;
  const bool want_spread_;
  const bool may_be_whole_;
  bool whole_ = false;
};

// Leads scans through the rows side by side. `sums` is scratch.
void scan_blocks(const RowTable& rows, std::span<std::optional<WholeScan>> scans,
                 std::vector<std::uint16_t>& sums) {
  sums.resize(scans.size() * kBlockRows);
  for (std::size_t begin = 0; begin < rows.slots();) {
    const auto first = static_cast<Slot>(begin);
    const std::size_t count = std::min(kBlockRows, rows.rows_in_chunk(first));
    begin += count;
    kernels::SignQuery wanted[kMostTogether];
    const std::uint16_t* sums_of[kMostTogether] = {};
    const std::size_t groups = count / kernels::kSignGroup;
    std::size_t asked = 0;
    for (std::size_t i = 0; i < scans.size(); ++i) {
      const kernels::SignQuery* query = scans[i]->signs_wanted(first);
      if (query == nullptr) continue;
      sums_of[i] = sums.data() + asked * groups * kernels::kSignGroup;
      wanted[asked++] = *query;
    }
    if (asked > 0) {
      kernels::active().sign_sums(wanted, asked, rows.signs(first)->groups(first),
                                  groups, sums.data());
    }
    for (std::size_t i = 0; i < scans.size(); ++i) {
      scans[i]->look_at(first, count, sums_of[i]);
    }
  }
}

CosineSpread scan_selected(const DenseQuery& query, DenseScratch& scratch) {
  make_room(scratch);
  BlockRescorer rescorer(query, scratch);
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
  rescorer.finish();
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

namespace {

// Whether so few rows pass that they are looked at one by one.
bool few_pass(const DenseQuery& query) noexcept {
  return !query.selection.selects_all() &&
         query.selection.count() * kGatherCost < query.rows.slots();
}

}  // namespace

CosineSpread flat_search(const DenseQuery& query, DenseScratch& scratch) {
  CosineSpread spread;
  if (few_pass(query)) {
    spread = scan_selected(query, scratch);
  } else {
    std::optional<WholeScan> scan;
    scan.emplace(query, scratch);
    scan_blocks(query.rows, {&scan, 1}, scratch.sums);
    spread = scan->finish();
  }
  const std::size_t passing = passing_rows(query);
  const bool is_exact = query.rows.space().is_short() || passing <= kFewRows;
  if (query.want_spread && passing > 0 && is_exact) {
    return spread_of(query, passing, scratch);
  }
  return spread;
}

void flat_search_together(std::span<const DenseQuery> queries,
                          std::span<DenseScratch> scratches) {
  VECALL_ASSERT(!queries.empty() && queries.size() <= kMostTogether &&
                queries.size() == scratches.size());
  if (few_pass(queries.front())) {
    for (std::size_t i = 0; i < queries.size(); ++i) {
      scan_selected(queries[i], scratches[i]);
    }
    return;
  }
  std::optional<WholeScan> scans[kMostTogether];
  for (std::size_t i = 0; i < queries.size(); ++i) {
    scans[i].emplace(queries[i], scratches[i]);
  }
  scan_blocks(queries.front().rows, {scans, queries.size()}, scratches.front().sums);
  for (std::size_t i = 0; i < queries.size(); ++i) scans[i]->finish();
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

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

// Rules rows out by their signs, before anything else of them is read. Rows that are
// likely among the best are scored at once, which raises the floor; what else may be is
// left for the end, when the floor rules most of it out. Where signs rule out too few
// rows, they rest for some blocks, the longer the more often.
class SignSieve {
 public:
  SignSieve(const DenseQuery& query, DenseScratch& scratch, BlockRescorer& rescorer)
      : query_(query), scratch_(scratch), rescorer_(rescorer) {
    scratch.near.clear();
    scratch.maybe.resize(0);
  }

  // Takes the rows from `first` on, if their signs rule out enough of them.
  // REQUIRES: scratch.positions and scratch.reach have room for them.
  template <class Passes>
  bool take(Slot first, std::size_t count, Passes passes) {
    if (query_.rows.signs(first) == nullptr || !has_floor()) return false;
    if (rests_ > 0) {
      --rests_;
      return false;
    }
    if (!is_encoded_) begin();
    const float floor = rescorer_.floor();
    const EncodedSigns::Reach reach = scratch_.signs.reach(error_.sine(floor));
    const std::size_t found = reaching(first, count, reach.plus, floor + reach.minus);
    if (found * kSievedShare > count) {
      rests_ = next_rest_;
      next_rest_ = std::min(4 * next_rest_, kLongestRest);
      return false;
    }
    const float* factors = query_.rows.signs(first)->factors(first);
    const std::uint32_t* positions = scratch_.positions.data();
    const float* reaches = scratch_.reach.data();
    SignedRows& maybe = scratch_.maybe;
    std::size_t size = maybe.slots.size();
    maybe.resize(size + found);
    Slot* slots = maybe.slots.data();
    float* estimates = maybe.estimates.data();
    float* factors_of_maybe = maybe.factors.data();
    for (std::size_t i = 0; i < found; ++i) {
      const std::size_t at = positions[i];
      const Slot slot = first + static_cast<Slot>(at);
      const float estimate = reaches[i] - factors[at] * reach.plus;
      slots[size] = slot;
      estimates[size] = estimate;
      factors_of_maybe[size] = factors[at];
      if (!passes(slot)) continue;
      if (estimate >= floor) {
        take_near(slot);
      } else {
        ++size;
      }
    }
    maybe.resize(size);
    for (std::size_t at = whole_groups(count); at < count; ++at) {
      if (passes(first + static_cast<Slot>(at)))
        take_near(first + static_cast<Slot>(at));
    }
    if (scratch_.near.size() >= kNear) offer_near();
    return true;
  }
  // Offers what was taken and not yet ruled out.
  void finish() {
    offer_near();
    SignedRows& maybe = scratch_.maybe;
    for (const float share : {kLikely, 1.0F}) {
      for (std::size_t at = 0; at < maybe.slots.size(); at += kBlockRows) {
        take_maybe(at, std::min(kBlockRows, maybe.slots.size() - at), share);
      }
      offer_near();
    }
    maybe.resize(0);
  }

 private:
  static constexpr std::size_t kSievedShare = 3;  // one row of so many may be left
  static constexpr std::size_t kLongestRest = 64;
  static constexpr std::size_t kNear = 8;  // rows whose planes are fetched together
  static constexpr float kLikely = 0.4F;   // of the margin

  void begin() {
    scratch_.signs.encode(query_.rows.space(), query_.encoded);
    error_.rounding = scratch_.signs.rounding();
    is_encoded_ = true;
  }
  [[nodiscard]] bool has_floor() const noexcept { return rescorer_.floor() >= kLeast; }
  static std::size_t whole_groups(std::size_t count) noexcept {
    return count / kernels::kSignGroup * kernels::kSignGroup;
  }

  // Into scratch.positions and scratch.reach.
  std::size_t reaching(Slot first, std::size_t count, float plus,
                       float least) noexcept {
    const SignPlane& signs = *query_.rows.signs(first);
    return kernels::active().signs_reaching(
        scratch_.signs.code(), signs.groups(first), signs.factors(first),
        count / kernels::kSignGroup, plus, least, scratch_.positions.data(),
        scratch_.reach.data());
  }

  // Takes those of some rows whose signs allow so much of the margin.
  void take_maybe(std::size_t begin, std::size_t count, float share) {
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
      estimates[at] = BlockRescorer::kOut;
      take_near(maybe.slots[begin + at]);
    }
  }

  void take_near(Slot slot) {
    scratch_.near.push_back(slot);
    const std::uint8_t* high = query_.rows.high(slot);
    for (std::size_t at = 0; at < query_.rows.space().high_bytes(); at += 64) {
      __builtin_prefetch(high + at);
    }
  }
  void offer_near() {
    gather(query_, scratch_.near, scratch_,
           [this](const Slot* slots, const float* estimates, const float* factors,
                  std::size_t count) {
             rescorer_.offer(estimates, factors, count,
                             [slots](std::size_t i) { return slots[i]; });
           });
    scratch_.near.clear();
  }

  static constexpr float kLeast = -1.5F;  // below any estimate

  const DenseQuery& query_;
  DenseScratch& scratch_;
  BlockRescorer& rescorer_;
  EstimateError error_;
  bool is_encoded_ = false;
  std::size_t rests_ = 0;
  std::size_t next_rest_ = 2;
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
  SignSieve sieve(query, scratch, rescorer);
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
    if (!want_spread && sieve.take(first, rows_here, passes)) continue;
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
  sieve.finish();
  return spread.result();
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

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

// From every step-th slot that passes; short vectors are too rough in 4 bits.
CosineSpread spread_of(const DenseQuery& asked, std::size_t step,
                       DenseScratch& scratch);

// Every row of the partition in order.
CosineSpread scan_all(const DenseQuery& asked, DenseScratch& scratch) {
  const auto& kernel = kernels::active();
  const RowTable& rows = asked.rows;
  Shortlist& shortlist = scratch.shortlist;
  const bool every_row = asked.selection.everything() && rows.all_have_vectors();
  const bool want_spread = asked.want_spread && !rows.space().is_short();
  scratch.estimates.resize(kBlockRows);
  scratch.positions.resize(kBlockRows);
  float* estimates = scratch.estimates.data();
  std::uint32_t* positions = scratch.positions.data();
  Spread spread;
  for (std::size_t begin = 0; begin < rows.slots();) {
    const auto first = static_cast<Slot>(begin);
    const std::size_t count = std::min(kBlockRows, rows.rows_in_chunk(first));
    kernel.scan(asked.query.code(), rows.high(first), rows.factors(first), count,
                estimates);
    const bool raises = begin == 0 && every_row;
    if (raises) shortlist.raise(estimates, count);
    const std::size_t found =
        kernel.at_least(estimates, count, shortlist.floor(), positions);
    for (std::size_t i = 0; i < found; ++i) {
      const Slot slot = first + positions[i];
      const float estimate = estimates[positions[i]];
      if (raises) {
        shortlist.offer_seen(slot, estimate);
      } else if (every_row ||
                 (rows.has_vector(slot) && asked.selection.contains(slot))) {
        shortlist.offer(slot, estimate);
      }
    }
    if (want_spread) {
      const float* factors = rows.factors(first);
      if (every_row) {
        spread.add(estimates, factors, count);
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          const Slot slot = first + static_cast<Slot>(i);
          if (rows.has_vector(slot) && asked.selection.contains(slot)) {
            spread.add(estimates[i], factors[i]);
          }
        }
      }
    }
    begin += count;
  }
  return spread.result();
}

template <class Each>
void gather(const DenseQuery& asked, std::span<const Slot> slots, DenseScratch& scratch,
            Each each) {
  const auto& kernel = kernels::active();
  const RowTable& rows = asked.rows;
  const std::size_t bytes = rows.space().high_bytes();
  scratch.estimates.resize(kBlockRows);
  scratch.codes.resize(kBlockRows);
  scratch.factors.resize(kBlockRows);
  for (std::size_t begin = 0; begin < slots.size(); begin += kGathered) {
    const std::size_t count = std::min(kGathered, slots.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const Slot slot = slots[begin + i];
      scratch.codes[i] = rows.high(slot);
      scratch.factors[i] = rows.factor(slot);
      for (std::size_t line = 0; line < bytes; line += 64) {
        __builtin_prefetch(scratch.codes[i] + line);
      }
    }
    kernel.gather(asked.query.code(), scratch.codes.data(), scratch.factors.data(),
                  count, scratch.estimates.data());
    for (std::size_t i = 0; i < count; ++i) {
      each(slots[begin + i], scratch.estimates[i]);
    }
  }
}

CosineSpread scan_selected(const DenseQuery& asked, DenseScratch& scratch) {
  scratch.slots.clear();
  asked.selection.for_each([&](Slot slot) {
    if (asked.rows.has_vector(slot)) scratch.slots.push_back(slot);
  });
  Spread spread;
  gather(asked, scratch.slots, scratch, [&](Slot slot, float estimate) {
    spread.add(estimate, asked.rows.factor(slot));
    if (estimate >= scratch.shortlist.floor()) scratch.shortlist.offer(slot, estimate);
  });
  return spread.result();
}

CosineSpread spread_of(const DenseQuery& asked, std::size_t step,
                       DenseScratch& scratch) {
  scratch.slots.clear();
  for (std::size_t slot = 0; slot < asked.rows.slots(); slot += step) {
    const auto at = static_cast<Slot>(slot);
    if (asked.rows.has_vector(at) && asked.selection.contains(at)) {
      scratch.slots.push_back(at);
    }
  }
  Spread spread;
  if (asked.rows.space().is_short()) {
    for (const Slot slot : scratch.slots) {
      spread.add(full_cosine(asked.rows, asked.query, slot, asked.exact), 0.0F);
    }
  } else {
    gather(asked, scratch.slots, scratch, [&](Slot slot, float estimate) {
      spread.add(estimate, asked.rows.factor(slot));
    });
  }
  return spread.result();
}

}  // namespace

CosineSpread flat_search(const DenseQuery& asked, DenseScratch& scratch) {
  scratch.shortlist.begin(asked.k, shortlist_margin(asked.rows));
  const bool few = !asked.selection.everything() &&
                   asked.selection.count() * kGatherCost < asked.rows.slots();
  const CosineSpread spread =
      few ? scan_selected(asked, scratch) : scan_all(asked, scratch);
  rescore(asked, scratch);
  if (asked.want_spread && asked.rows.space().is_short()) {
    return spread_of(asked, 1, scratch);
  }
  return spread;
}

void scan_slots(const DenseQuery& asked, std::span<const Slot> slots,
                DenseScratch& scratch) {
  gather(asked, slots, scratch, [&](Slot slot, float estimate) {
    if (estimate < scratch.shortlist.floor() || !asked.rows.has_vector(slot) ||
        !asked.selection.contains(slot)) {
      return;
    }
    scratch.shortlist.offer(slot, estimate);
  });
}

CosineSpread sampled_spread(const DenseQuery& asked, std::size_t count,
                            DenseScratch& scratch) {
  return spread_of(asked, std::max<std::size_t>(1, asked.rows.slots() / count),
                   scratch);
}

}  // namespace vecall

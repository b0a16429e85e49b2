#pragma once

// The rows whose estimate does not rule them out of the best k. An estimate from 4 bits
// a value is off by a known deviation, so every row within a margin of the k-th best
// estimate stays and is scored again from all bits: near ties make the list longer, and
// the answer stays exact. Depends on estimates alone, so it is the same on every
// instruction set.
//
// The deviation shrinks with the sine of the angle between row and query, since an
// estimate is right for the row itself: near rows need a narrower margin.
//
// The k-th best estimate is bounded from below by bisection: to count how many
// estimates reach a value takes one comparison each and no branch, where a heap
// mispredicts.
//
// Not thread-safe: one a query.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"
#include "vecall/types.hpp"

namespace vecall {

// How far estimates of one query may be off.
struct EstimateError {
  float at_right_angles = 0;  // one deviation for a row at 90 degrees, at most
  float rounding = 0;         // of the query, see EncodedQuery::rounding()
  float deviations = 0;       // by which a row may lie below the k-th best
  // The same where the deviation of an angle is used: the k-th best estimate is itself
  // the luckiest of many.
  float deviations_by_angle = 0;

  // The sine of an angle of this cosine, and what the query's own rounding adds.
  [[nodiscard]] float sine(float cosine) const noexcept {
    const float along = std::clamp(cosine, 0.0F, 1.0F);
    return std::min(1.0F, std::sqrt(1.0F - along * along + rounding * rounding));
  }
  // How far below this k-th best estimate a row still stays.
  [[nodiscard]] float margin(float kth) const noexcept {
    float margin = deviations * at_right_angles;
    // Each step is nearer to the margin that fits its own lower end, from above.
    for (int step = 0; step < 3; ++step) {
      const float by_angle =
          deviations_by_angle * at_right_angles * sine(kth - margin) + kFloatError;
      margin = std::min(margin, by_angle);
    }
    return margin;
  }

  static constexpr float kFloatError = 2e-6F;  // of estimates as floats
};

// A value that `rank` of the estimates reach, and few more unless they are equal, found
// from `least` on; `least` if fewer reach even that. Estimates of cosines lie between
// -1.5 and 1.5, rounding included.
inline float rank_value(const float* estimates, std::size_t count, std::size_t rank,
                        float least = -1.5F) noexcept {
  constexpr int kSteps = 20;  // to 3e-6
  const auto reaching = kernels::active().reaching;
  float low = least;
  float high = 1.5F;
  for (int step = 0; step < kSteps; ++step) {
    const float middle = 0.5F * (low + high);
    const std::size_t reached = reaching(estimates, count, middle);
    (reached >= rank ? low : high) = middle;
    if (reached >= rank && reached <= rank + rank / 4) break;
  }
  return low;
}

class Shortlist {
 public:
  // REQUIRES: k > 0.
  void begin(std::size_t k, const EstimateError& error) {
    VECALL_ASSERT(k > 0);
    k_ = k;
    error_ = error;
    kth_ = -std::numeric_limits<float>::infinity();
    floor_ = kth_;
    slots_.clear();
    estimates_.clear();
    tighten_at_ = std::max(kFewest, k);
    is_settled_ = true;
  }

  // At most the k-th best estimate; -inf while fewer were offered.
  [[nodiscard]] float kth() const noexcept { return kth_; }
  // What a row must reach to be worth an offer.
  [[nodiscard]] float floor() const noexcept { return floor_; }

  void offer(Slot slot, float estimate) {
    slots_.push_back(slot);
    estimates_.push_back(estimate);
    is_settled_ = false;
    if (slots_.size() >= tighten_at_) tighten();
  }

  // Offers many at once, which is faster than one by one. `positions` is scratch.
  void offer(const Slot* slots, const float* estimates, std::size_t count,
             std::vector<std::uint32_t>& positions) {
    raise_floor(estimates, count);
    positions.resize(std::max(positions.size(), count));
    const std::size_t found =
        kernels::active().at_least(estimates, count, floor_, positions.data());
    for (std::size_t i = 0; i < found; ++i) {
      slots_.push_back(slots[positions[i]]);
      estimates_.push_back(estimates[positions[i]]);
    }
    if (found > 0) is_settled_ = false;
  }

  // Raises the floor to what the rows so far allow, so that kth() can be trusted.
  void settle() {
    if (!is_settled_) tighten();
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] Slot slot(std::size_t i) const noexcept { return slots_[i]; }
  [[nodiscard]] float estimate(std::size_t i) const noexcept { return estimates_[i]; }

 private:
  void raise_floor(const float* estimates, std::size_t count) noexcept {
    if (count < k_) return;
    float low = std::max(kth_, kLeast);
    if (kernels::active().reaching(estimates, count, low) < k_) return;
    low = rank_value(estimates, count, k_, low);
    kth_ = low;
    floor_ = low - error_.margin(low);
  }

  void tighten() {
    is_settled_ = true;
    raise_floor(estimates_.data(), estimates_.size());
    std::size_t size = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[size] = slots_[i];
      estimates_[size] = estimates_[i];
      size += estimates_[i] >= floor_ ? 1 : 0;
    }
    slots_.resize(size);
    estimates_.resize(size);
    tighten_at_ = size + std::max(kFewest, size / 2);
  }

  static constexpr std::size_t kFewest = 64;  // newcomers that are worth a bisection
  static constexpr float kLeast = -1.5F;      // below any estimate

  std::size_t k_ = 1;
  EstimateError error_;
  float kth_ = 0;
  float floor_ = 0;
  std::size_t tighten_at_ = 0;
  bool is_settled_ = true;  // no offer came since the floor was raised
  std::vector<Slot> slots_;
  std::vector<float> estimates_;
};

}  // namespace vecall

#pragma once

// The rows whose estimate does not rule them out of the best k. An estimate from 4 bits
// a value is off by a known deviation, so every row within a margin of the k-th best
// estimate is kept and scored again from all bits: near ties make the list longer, and
// the answer stays exact. Depends on estimates alone, so it is the same on every
// instruction set.
//
// The k-th best estimate is bounded from below by bisection: to count how many
// estimates reach a value takes one comparison each and no branch, where a heap
// mispredicts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/dispatch.hpp"
#include "vecall/types.hpp"

namespace vecall {

// Deviations of an estimate by which a row may lie below the k-th best.
inline constexpr float kShortlistDeviations = 5.0F;

class Shortlist {
 public:
  // `margin` is how far below the k-th best estimate a row is still kept. REQUIRES: k >
  // 0.
  void begin(std::size_t k, float margin) {
    k_ = k;
    margin_ = margin;
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
  // Offers a row whose estimate was among those that raise() saw.
  void offer_seen(Slot slot, float estimate) {
    slots_.push_back(slot);
    estimates_.push_back(estimate);
  }

  // Raises the floor to what the rows so far allow, so that kth() can be trusted.
  void settle() {
    if (!is_settled_) tighten();
  }

  // Raises the floor by estimates that are not offered yet: all of the first block.
  void raise(const float* estimates, std::size_t count) noexcept {
    if (count < k_) return;
    float low = std::max(kth_, kLeast);
    float high = kMost;
    const auto reaching = kernels::active().reaching;
    if (reaching(estimates, count, low) < k_) return;
    for (int step = 0; step < kSteps; ++step) {
      const float middle = 0.5F * (low + high);
      (reaching(estimates, count, middle) >= k_ ? low : high) = middle;
    }
    kth_ = low;
    floor_ = low - margin_;
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] Slot slot(std::size_t i) const noexcept { return slots_[i]; }
  [[nodiscard]] float estimate(std::size_t i) const noexcept { return estimates_[i]; }

 private:
  void tighten() {
    is_settled_ = true;
    raise(estimates_.data(), estimates_.size());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[kept] = slots_[i];
      estimates_[kept] = estimates_[i];
      kept += estimates_[i] >= floor_ ? 1 : 0;
    }
    slots_.resize(kept);
    estimates_.resize(kept);
    tighten_at_ = kept + std::max(kFewest, kept / 2);
  }

  static constexpr std::size_t kFewest = 64;  // newcomers that are worth a bisection
  // Estimates of cosines lie between these but for rounding.
  static constexpr float kLeast = -1.5F;
  static constexpr float kMost = 1.5F;
  static constexpr int kSteps = 10;

  std::size_t k_ = 1;
  float margin_ = 0;
  float kth_ = 0;
  float floor_ = 0;
  std::size_t tighten_at_ = 0;
  bool is_settled_ = true;  // no offer came since the floor was raised
  std::vector<Slot> slots_;
  std::vector<float> estimates_;
};

}  // namespace vecall

#pragma once

// The rows whose estimate does not rule them out of the best k. An estimate from 4 bits
// a value is off by a known deviation, so every row within a margin of the k-th best
// estimate is kept and scored again from all bits: near ties make the list longer, and
// the answer stays exact. Depends on estimates alone, so it is the same on every
// instruction set and in every order of rows.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "index/top_k.hpp"

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
    best_.clear();
    kept_.clear();
  }

  // The k-th best estimate, -inf while fewer were offered.
  [[nodiscard]] float kth() const noexcept {
    return best_.size() < k_ ? -std::numeric_limits<float>::infinity() : best_.front();
  }
  // What a row must reach to be worth an offer.
  [[nodiscard]] float floor() const noexcept { return kth() - margin_; }

  void offer(Slot slot, float estimate) {
    kept_.push_back({slot, estimate});
    if (best_.size() < k_) {
      best_.push_back(estimate);
      std::push_heap(best_.begin(), best_.end(), std::greater<>());
    } else if (estimate > best_.front()) {
      replace_worst(estimate);
    }
  }

  // Everything that was worth an offer when it came; the caller drops what is below the
  // last floor().
  [[nodiscard]] const std::vector<Scored>& kept() const noexcept { return kept_; }

 private:
  // Sifts down by hand: pop and push of the library walk the heap twice.
  void replace_worst(float estimate) noexcept {
    std::size_t hole = 0;
    const std::size_t count = best_.size();
    for (std::size_t child = 1; child < count; child = 2 * hole + 1) {
      if (child + 1 < count && best_[child + 1] < best_[child]) ++child;
      if (best_[child] >= estimate) break;
      best_[hole] = best_[child];
      hole = child;
    }
    best_[hole] = estimate;
  }

  std::size_t k_ = 1;
  float margin_ = 0;
  std::vector<float> best_;  // a heap, the worst of the k best in front
  std::vector<Scored> kept_;
};

}  // namespace vecall

#include "partition/fusion.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vecall {

namespace {

struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
};

Range similarity_range(std::span<const Candidate> candidates) noexcept {
  Range range;
  for (const Candidate& candidate : candidates) {
    if (std::isnan(candidate.similarity)) continue;
    range.low = std::min(range.low, candidate.similarity);
    range.high = std::max(range.high, candidate.similarity);
  }
  return range;
}

// Where a similarity lies between the lowest and the highest candidate's.
float normalised(float similarity, const Range& range) noexcept {
  if (std::isnan(similarity)) return 0.0F;
  const float width = range.high - range.low;
  return width < 1e-6F ? 1.0F : (similarity - range.low) / width;
}

// Does the vector side agree with the words? An embedder that knows nothing of the text
// puts the rows with the query's words at its mean; a good one puts them above.
float trust_in_vectors(std::span<const Candidate> candidates,
                       const FusionInput& input) noexcept {
  double weighted = 0;
  double weight = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.lexical <= 0.0F || std::isnan(candidate.similarity)) continue;
    weighted += static_cast<double>(candidate.lexical) * candidate.similarity;
    weight += candidate.lexical;
  }
  if (weight <= 0.0) return 1.0F;
  const double lift =
      (weighted / weight - input.spread.mean) / std::max(input.spread.deviation, 1e-9);
  const double unsaid = 1.0 - input.coverage;
  return static_cast<float>(
      std::clamp(std::max(2.0 * lift, unsaid * unsaid), 0.0, 1.0));
}

}  // namespace

void fuse(std::span<Candidate> candidates, const FusionInput& input) noexcept {
  float max_lexical = 0.0F;
  for (const Candidate& candidate : candidates) {
    max_lexical = std::max(max_lexical, candidate.lexical);
  }
  const float said = std::sqrt(std::clamp(input.coverage, 0.0F, 1.0F));
  const float dense = input.has_vector ? input.dense_weight : 0.0F;
  const float lexical_scale =
      max_lexical > 0.0F ? (1.0F - dense) * said / max_lexical : 0.0F;
  const float dense_scale =
      dense > 0.0F ? dense * trust_in_vectors(candidates, input) : 0.0F;
  const Range range = similarity_range(candidates);
  for (Candidate& candidate : candidates) {
    candidate.base = lexical_scale * candidate.lexical;
    if (dense > 0.0F)
      candidate.base += dense_scale * normalised(candidate.similarity, range);
  }
  for (Candidate& candidate : candidates) {
    float beside = 0.0F;
    for (const std::size_t index : {candidate.previous, candidate.next}) {
      if (index != kNoCandidate) beside = std::max(beside, candidates[index].base);
    }
    candidate.score = candidate.base + input.neighbour_weight * beside;
  }
}

}  // namespace vecall

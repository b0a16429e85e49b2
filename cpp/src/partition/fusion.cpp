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

// A smaller deviation of the cosines is below what the stored codes resolve, as with
// one row: then the vectors say the same of all rows and cannot disagree with the
// words.
constexpr double kNoSpread = 1e-3;

// Does the vector side agree with the words? An embedder that knows nothing of the text
// puts the rows with the query's words at its mean; a good one puts them above.
float trust_in_vectors(std::span<const Candidate> candidates,
                       const FusionInput& input) noexcept {
  if (input.known_model) return 1.0F;
  double weighted = 0;
  double weight = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.lexical <= 0.0F || std::isnan(candidate.similarity)) continue;
    weighted += static_cast<double>(candidate.lexical) * candidate.similarity;
    weight += candidate.lexical;
  }
  if (weight <= 0.0 || input.spread.deviation < kNoSpread) return 1.0F;
  const double lift = (weighted / weight - input.spread.mean) / input.spread.deviation;
  const double unsaid = 1.0 - input.coverage;
  return static_cast<float>(
      std::clamp(std::max(2.0 * lift, unsaid * unsaid), 0.0, 1.0));
}

// The fewer of the query's words are found, the less the words' side counts.
constexpr float kSaidPower = 0.75F;

float raised(float share, float power) noexcept {
  return power == 0.5F ? std::sqrt(share) : std::pow(share, power);
}

// BM25 of the rows that hold more of the query's words counts more.
void weigh_words(std::span<Candidate> candidates, float dense,
                 const FusionInput& input) noexcept {
  float most = 0.0F;
  for (Candidate& candidate : candidates) {
    candidate.parts.words =
        candidate.lexical * raised(candidate.covered, input.ranking.coverage_power);
    most = std::max(most, candidate.parts.words);
  }
  const float said = std::pow(std::clamp(input.coverage, 0.0F, 1.0F), kSaidPower);
  const float scale = most > 0.0F ? (1.0F - dense) * said / most : 0.0F;
  for (Candidate& candidate : candidates) candidate.parts.words *= scale;
}

// A reply beside the turn that it answers, where both are found.
void lower_replies(std::span<Candidate> candidates, float factor) noexcept {
  for (Candidate& candidate : candidates) {
    if (candidate.by_favoured_author || candidate.previous == kNoCandidate) continue;
    const Candidate& before = candidates[candidate.previous];  // is never lowered
    if (!before.by_favoured_author || before.score < candidate.score) continue;
    candidate.parts.factor *= factor;
    candidate.score *= factor;
  }
}

float beside(std::span<const Candidate> candidates, const Candidate& candidate,
             const Ranking& ranking) noexcept {
  float best = 0.0F;
  if (candidate.previous != kNoCandidate) {
    const Candidate& before = candidates[candidate.previous];
    const float share = before.asks ? ranking.after_question : ranking.previous;
    best = std::max(best, share * before.base());
    if (before.previous != kNoCandidate) {
      best = std::max(best, ranking.second * candidates[before.previous].base());
    }
  }
  if (candidate.next != kNoCandidate) {
    const Candidate& after = candidates[candidate.next];
    best = std::max(best, ranking.next * after.base());
    if (after.next != kNoCandidate) {
      best = std::max(best, ranking.second * candidates[after.next].base());
    }
  }
  return best;
}

}  // namespace

void SessionSums::gather(std::span<const Candidate> candidates) {
  for (const Candidate& candidate : candidates) {
    if (candidate.session >= best_.size()) best_.resize(candidate.session + 1UL);
    best_[candidate.session] = {};
  }
  for (const Candidate& candidate : candidates) {
    std::array<float, 3>& best = best_[candidate.session];
    float base = candidate.base();
    for (float& top : best) {
      if (base > top) std::swap(base, top);
    }
  }
}

float SessionSums::of(std::uint32_t session) const noexcept {
  if (session == 0) return 0.0F;  // rows without a session have nothing in common
  const std::array<float, 3>& best = best_[session];
  return best[0] + best[1] + best[2];
}

float fuse(std::span<Candidate> candidates, const FusionInput& input,
           SessionSums& sums) {
  const Ranking& ranking = input.ranking;
  const float dense = input.has_vector ? ranking.dense : 0.0F;
  weigh_words(candidates, dense, input);
  float trust = 0.0F;
  if (dense > 0.0F) {
    const Range range = similarity_range(candidates);
    if (range.low <= range.high) trust = trust_in_vectors(candidates, input);
    for (Candidate& candidate : candidates) {
      candidate.parts.vectors = dense * trust * normalised(candidate.similarity, range);
    }
  }
  if (ranking.session > 0.0F) sums.gather(candidates);
  for (Candidate& candidate : candidates) {
    ScoreParts& parts = candidate.parts;
    parts.beside = beside(candidates, candidate, ranking);
    if (ranking.session > 0.0F) {
      parts.session = ranking.session * sums.of(candidate.session);
    }
    candidate.score =
        (parts.words + parts.vectors + parts.beside + parts.session) * parts.factor;
  }
  if (ranking.reply != 1.0F) lower_replies(candidates, ranking.reply);
  return trust;
}

}  // namespace vecall

#include "partition/fusion.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
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

constexpr float kNone = -1.0F;  // below every context

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

// The mean of fewer rows is that of what was found, and not of what is usual.
constexpr std::size_t kFewCandidates = 50;

constexpr float kContextUnits = 0x1p30F;  // of a context, which is at most 1

// Fills the contexts; returns the usual one.
float fill_contexts(std::span<Candidate> candidates, float coverage,
                    const Range& range) noexcept {
  const float unsaid = 1.0F - std::clamp(coverage, 0.0F, 1.0F);
  std::int64_t sum = 0;  // whole numbers: the same in every order of the rows
  for (Candidate& candidate : candidates) {
    const float share = normalised(candidate.similarity, range);
    const float clear = 1.0F - unsaid * (1.0F - share * share);
    candidate.context = candidate.parts.words + candidate.parts.vectors * clear;
    sum += static_cast<std::int64_t>(candidate.context * kContextUnits);
  }
  const auto rows = static_cast<float>(std::max(candidates.size(), kFewCandidates));
  return static_cast<float>(sum) / (kContextUnits * rows);
}

float beside(std::span<const Candidate> candidates, const Candidate& candidate,
             const Ranking& ranking, float usual) noexcept {
  if (candidate.session == 0) return ranking.next * candidate.context;
  float best = 0.0F;
  if (candidate.previous == kNoCandidate) best = ranking.previous * usual;
  if (candidate.next == kNoCandidate) best = std::max(best, ranking.next * usual);
  if (candidate.previous != kNoCandidate) {
    const Candidate& before = candidates[candidate.previous];
    const float share = before.asks ? ranking.after_question : ranking.previous;
    best = std::max(best, share * before.context);
    if (before.previous != kNoCandidate) {
      best = std::max(best, ranking.second * candidates[before.previous].context);
    }
  }
  if (candidate.next != kNoCandidate) {
    const Candidate& after = candidates[candidate.next];
    best = std::max(best, ranking.next * after.context);
    if (after.next != kNoCandidate) {
      best = std::max(best, ranking.second * candidates[after.next].context);
    }
  }
  return best;
}

}  // namespace

void SessionSums::gather(std::span<const Candidate> candidates, float usual) {
  for (const Candidate& candidate : candidates) {
    if (candidate.session >= best_.size()) best_.resize(candidate.session + 1UL);
    best_[candidate.session].fill(kNone);
  }
  for (const Candidate& candidate : candidates) {
    std::array<float, 3>& best = best_[candidate.session];
    float context = candidate.context;
    for (float& top : best) {
      if (context > top) std::swap(context, top);
    }
  }
  for (const Candidate& candidate : candidates) {
    for (float& top : best_[candidate.session]) {
      if (top == kNone) top = usual;
    }
  }
}

float SessionSums::of(std::uint32_t session) const noexcept {
  const std::array<float, 3>& best = best_[session];
  return best[0] + best[1] + best[2];
}

float fuse(std::span<Candidate> candidates, const FusionInput& input,
           SessionSums& sums) {
  const Ranking& ranking = input.ranking;
  const float dense = input.has_vector ? ranking.dense : 0.0F;
  weigh_words(candidates, dense, input);
  float trust = 0.0F;
  Range range;
  if (dense > 0.0F) {
    range = similarity_range(candidates);
    if (range.low <= range.high) trust = trust_in_vectors(candidates, input);
    for (Candidate& candidate : candidates) {
      candidate.parts.vectors = dense * trust * normalised(candidate.similarity, range);
    }
  }
  const float usual = fill_contexts(candidates, input.coverage, range);
  if (ranking.session > 0.0F) sums.gather(candidates, usual);
  for (Candidate& candidate : candidates) {
    ScoreParts& parts = candidate.parts;
    parts.beside = beside(candidates, candidate, ranking, usual);
    if (ranking.session > 0.0F) {
      const float sum =
          candidate.session == 0 ? 3.0F * usual : sums.of(candidate.session);
      parts.session = ranking.session * sum;
    }
    candidate.score =
        (parts.words + parts.vectors + parts.beside + parts.session) * parts.factor;
  }
  if (ranking.reply != 1.0F) lower_replies(candidates, ranking.reply);
  return trust;
}

}  // namespace vecall

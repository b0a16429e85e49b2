#pragma once

// Makes one score of the two sides of recall, words and vectors, of what stands beside
// a row and of what is known about it. Pure functions of their arguments.
// docs/design/ranking.md explains each step by its measurement.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "vecall/types.hpp"

namespace vecall {

inline constexpr std::size_t kNoCandidate = static_cast<std::size_t>(-1);

// One row that either side proposed, or that stands next to such a row in its session.
struct Candidate {
  Slot slot = 0;
  std::uint32_t session = 0;     // in which the row has a position; 0 = none
  bool asks = false;             // the row is a question
  bool by_named_author = false;  // the query names its author
  bool by_favoured_author = false;
  bool dated = false;                   // the row has a time of its own
  float lexical = 0;                    // BM25, 0 without a shared word
  float covered = 0;                    // share of the query's idf, [0, 1]
  float similarity = 0;                 // cosine, NaN without a vector
  std::size_t previous = kNoCandidate;  // index of the neighbour among the candidates
  std::size_t next = kNoCandidate;
  ScoreParts parts;   // out, but for the factor
  float context = 0;  // out: what it gives to the rows beside it
  float score = 0;    // out
};

// Sums over the best rows of each session. Grown, never freed.
class SessionSums {
 public:
  // The sum of the three largest contexts of each candidate's session becomes readable;
  // `usual` stands for those that a session lacks.
  void gather(std::span<const Candidate> candidates, float usual);
  [[nodiscard]] float of(std::uint32_t session) const noexcept;

 private:
  std::vector<std::array<float, 3>> best_;  // by session number, descending
};

struct FusionInput {
  bool has_vector = false;  // the query came with one
  float coverage = 0;   // share of the query's idf that the best row matches, [0, 1]
  CosineSpread spread;  // of the query over the partition
  bool known_model = false;  // trust is 1
  const Ranking& ranking;
};

// Fills parts and score of every candidate; returns the trust in the vectors:
//   words   = (1 - a) * coverage^0.75 * w / max w,  w = lexical * covered^power
//   vectors = a * trust * (similarity - min) / (max - min)        a = ranking.dense
//   context = words + vectors * (1 - u + u * s^2),  u = 1 - coverage,
//             s = (similarity - min) / (max - min)
//   beside  = the largest of: share * context of the row before and of the row after,
//             and of the rows two positions away
//   session = share * sum of the three largest contexts of the session's turns
//   score   = (words + vectors + beside + session) * factor
// Contexts are what rows give to each other. Half of the range of cosines is chance,
// and chance adds up over neighbours, so where the words say little only a high cosine
// counts there. Rows with and without neighbours compete on one scale: a row that
// stands in no session is its own next row; and the mean context of all candidates
// stands for a neighbour that the first and the last turn do not have, and for each
// turn that a session lacks to three. Fewer than 50 candidates count as 50: the others
// have nothing. The factor of a reply is lowered if the row before it, of a favoured
// author, scores at least as high: both say it, and the author's own words come first.
// Without a query vector a is 0. `trust` in [0, 1] is what keeps a weak embedder from
// doing harm: how many standard deviations the rows that share words with the query
// stand above the partition's mean cosine (twice that, capped at 1), or (1 -
// coverage)^2 where the words say little, whichever is more. It is 1 for a known model.
float fuse(std::span<Candidate> candidates, const FusionInput& input,
           SessionSums& sums);

}  // namespace vecall

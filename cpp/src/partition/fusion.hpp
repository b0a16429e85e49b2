#pragma once

// Makes one score of the two sides of recall, words and vectors. Pure functions of
// their arguments. docs/recall.md explains each step by its measurement.

#include <cstddef>
#include <span>

#include "index/dense_query.hpp"
#include "vecall/types.hpp"

namespace vecall {

inline constexpr std::size_t kNoCandidate = static_cast<std::size_t>(-1);

// One row that either side proposed, or that stands next to such a row in its session.
struct Candidate {
  Slot slot = 0;
  float lexical = 0;                    // BM25, 0 without a shared word
  float similarity = 0;                 // cosine, NaN without a vector
  float base = 0;                       // out: both sides fused
  float score = 0;                      // out: with the neighbours' share
  std::size_t previous = kNoCandidate;  // index of the neighbour among the candidates
  std::size_t next = kNoCandidate;
};

struct FusionInput {
  bool has_vector = false;  // the query came with one
  float coverage =
      0;  // share of the query's idf mass that the best row matches, [0, 1]
  CosineSpread spread;  // of the query over the partition
  float dense_weight = 0;
  float neighbour_weight = 0;
};

// Fills base and score of every candidate:
//   base  = (1 - a) * sqrt(coverage) * lexical / max lexical
//         + a * trust * (similarity - min) / (max - min)      a = dense_weight
//   score = base + neighbour_weight * max(base of the two neighbours)
// Without a query vector a is 0. `trust` in [0, 1] is what keeps a weak embedder from
// doing harm: how many standard deviations the rows that share words with the query
// stand above the partition's mean cosine (twice that, capped at 1), or (1 -
// coverage)^2 where the words say little, whichever is more.
void fuse(std::span<Candidate> candidates, const FusionInput& input) noexcept;

}  // namespace vecall

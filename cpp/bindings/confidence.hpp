#pragma once

// The law that makes probabilities of scores; bind_confidence.cpp binds and explains
// it.

#include <span>
#include <utility>
#include <vector>

#include "instances.hpp"

namespace vecall::bindings {

// What the engine says of a found row, and the characters of its text.
struct RatedHit {
  double score, covered, vectors, factor, similarity, size;
};

struct Rating {
  double place, relative, confidence;
};

// A logistic law: the log-odds are a bias and a weighted sum of signals.
class Confidence {
 public:
  Confidence(double bias, std::vector<double> weights)
      : bias_(bias), weights_(std::move(weights)) {}

  [[nodiscard]] double probability(std::span<const double> signals) const;
  // Of hits best first; `best` is the best score of the search.
  [[nodiscard]] std::vector<Rating> rate(std::span<const RatedHit> hits, double best,
                                         double vector_scale) const;

 private:
  double bias_;
  std::vector<double> weights_;
};

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::Confidence>
    : MadeInstanceCaster<vecall::bindings::Confidence> {};

}  // namespace pybind11::detail

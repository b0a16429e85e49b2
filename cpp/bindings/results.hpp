#pragma once

// Hits as numpy arrays, one an attribute.

#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <vector>

#include "vecall/types.hpp"

namespace vecall::bindings {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T>;

using HitArrays = py::typing::Tuple<Array<std::int64_t>, Array<float>>;
using RecallArrays = py::typing::Tuple<Array<std::int64_t>, Array<float>, Array<float>,
                                       Array<float>, Array<float>, Array<double>>;

inline HitArrays to_arrays(const std::vector<Hit>& hits) {
  const auto count = static_cast<py::ssize_t>(hits.size());
  Array<std::int64_t> ids(count);
  Array<float> scores(count);
  std::int64_t* id = ids.mutable_data();
  float* score = scores.mutable_data();
  for (const Hit& hit : hits) {
    *id++ = hit.id;
    *score++ = hit.score;
  }
  return py::make_tuple(std::move(ids), std::move(scores));
}

inline RecallArrays to_arrays(const std::vector<RecallHit>& hits,
                              const RecallSummary& summary) {
  const auto count = static_cast<py::ssize_t>(hits.size());
  Array<std::int64_t> ids(count);
  Array<float> scores(count);
  Array<float> similarities(count);
  Array<float> lexical(count);
  Array<float> parts({count, py::ssize_t{6}});
  float* part = parts.mutable_data();
  for (py::ssize_t i = 0; i < count; ++i) {
    const RecallHit& hit = hits[static_cast<std::size_t>(i)];
    ids.mutable_data()[i] = hit.id;
    scores.mutable_data()[i] = hit.score;
    similarities.mutable_data()[i] = hit.similarity;
    lexical.mutable_data()[i] = hit.lexical;
    for (const float value : {hit.covered, hit.parts.words, hit.parts.vectors,
                              hit.parts.beside, hit.parts.session, hit.parts.factor}) {
      *part++ = value;
    }
  }
  Array<double> shared(5);
  double* value = shared.mutable_data();
  *value++ = static_cast<double>(summary.coverage);
  *value++ = static_cast<double>(summary.trust);
  *value++ = summary.spread.mean;
  *value++ = summary.spread.deviation;
  *value++ = static_cast<double>(summary.rows);
  return py::make_tuple(std::move(ids), std::move(scores), std::move(similarities),
                        std::move(lexical), std::move(parts), std::move(shared));
}

}  // namespace vecall::bindings

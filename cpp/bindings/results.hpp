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
using RecallArrays =
    py::typing::Tuple<Array<std::int64_t>, Array<float>, Array<float>, Array<float>>;

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

inline RecallArrays to_arrays(const std::vector<RecallHit>& hits) {
  const auto count = static_cast<py::ssize_t>(hits.size());
  Array<std::int64_t> ids(count);
  Array<float> scores(count);
  Array<float> similarities(count);
  Array<float> lexical(count);
  for (py::ssize_t i = 0; i < count; ++i) {
    const RecallHit& hit = hits[static_cast<std::size_t>(i)];
    ids.mutable_data()[i] = hit.id;
    scores.mutable_data()[i] = hit.score;
    similarities.mutable_data()[i] = hit.similarity;
    lexical.mutable_data()[i] = hit.lexical;
  }
  return py::make_tuple(std::move(ids), std::move(scores), std::move(similarities),
                        std::move(lexical));
}

}  // namespace vecall::bindings

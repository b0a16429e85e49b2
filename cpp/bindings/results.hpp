#pragma once

// Hits as numpy arrays or lists, one an attribute.

#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <vector>

#include "vecall/types.hpp"

namespace vecall::bindings {

namespace py = pybind11;

template <class T>
using Array = py::array_t<T>;

using HitArrays = py::typing::Tuple<Array<std::int64_t>, Array<float>>;
using RecallArrays = py::typing::Tuple<Array<std::int64_t>, Array<float>, Array<float>,
                                       Array<float>, Array<float>, Array<double>>;

using IdList = py::typing::List<std::int64_t>;
using FloatList = py::typing::List<double>;
using RecallLists = py::typing::Tuple<IdList, FloatList, FloatList, FloatList,
                                      py::typing::List<FloatList>>;

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

// In the order of `vecall.search.scores.Hit.score_parts`.
inline std::array<float, 6> parts_of(const RecallHit& hit) {
  return {hit.covered,      hit.parts.words,   hit.parts.vectors,
          hit.parts.beside, hit.parts.session, hit.parts.factor};
}

inline std::array<double, 6> numbers_of(const RecallSummary& summary) {
  return {static_cast<double>(summary.coverage),
          static_cast<double>(summary.trust),
          summary.spread.mean,
          summary.spread.deviation,
          static_cast<double>(summary.rows),
          static_cast<double>(summary.inside)};
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
    part = std::ranges::copy(parts_of(hit), part).out;
  }
  Array<double> shared(6);
  std::ranges::copy(numbers_of(summary), shared.mutable_data());
  return py::make_tuple(std::move(ids), std::move(scores), std::move(similarities),
                        std::move(lexical), std::move(parts), std::move(shared));
}

// A list of the numbers that `get` takes from each value.
template <class Values, class Get>
py::list list_of(const Values& values, Get get) {
  py::list all(std::size(values));
  Py_ssize_t at = 0;
  for (const auto& value : values) {
    const auto number = get(value);
    PyObject* made = nullptr;
    if constexpr (std::is_same_v<decltype(number), const std::uint64_t>) {
      made = PyLong_FromUnsignedLongLong(number);
    } else if constexpr (std::is_integral_v<decltype(number)>) {
      made = PyLong_FromLongLong(number);
    } else if constexpr (std::is_floating_point_v<decltype(number)>) {
      made = PyFloat_FromDouble(static_cast<double>(number));
    } else {
      made = list_of(number, std::identity()).release().ptr();
    }
    if (made == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(all.ptr(), at++, made);
  }
  return all;
}

inline py::list ids_of(const std::vector<RecallHit>& hits) {
  return list_of(hits, [](const RecallHit& hit) { return hit.id; });
}

inline RecallLists to_lists(const std::vector<RecallHit>& hits) {
  return py::make_tuple(
      ids_of(hits), list_of(hits, [](const RecallHit& hit) { return hit.score; }),
      list_of(hits, [](const RecallHit& hit) { return hit.similarity; }),
      list_of(hits, [](const RecallHit& hit) { return hit.lexical; }),
      list_of(hits, parts_of));
}

}  // namespace vecall::bindings

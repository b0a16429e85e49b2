#pragma once

// The array arguments of Index. Arrays as the engine wants them are
// borrowed as they are; other numbers, in arrays or in lists, are converted. Errors
// name the argument, never its values.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "casters.hpp"
#include "vecall/errors.hpp"

namespace vecall::bindings {

// Any whole numbers.
struct Ids {
  std::span<const std::int64_t> values;
  std::vector<std::int64_t> converted;
  py::object keep;
  py::object pin;
};

// Ids, or a mask with an entry for each id of `Index.ids`.
struct Only {
  Ids ids;
  std::vector<std::uint8_t> mask;
  bool is_mask = false;
};

// One vector or many.
struct Vectors {
  std::span<const float> values;
  std::size_t rows = 1;
  std::size_t columns = 0;
  bool is_matrix = false;
  std::vector<float> converted;
  py::object keep;
  py::object pin;
};
template <Name kName, int kLeastDims = 1>
struct VectorsArg : Vectors {};

// Length of the vectors of an Index, from 1 to kMaxDim.
struct IndexDim {
  std::size_t value;
};

// How many threads; -1 for one a processor.
struct ThreadCount {
  std::size_t value;
};

inline constexpr int kReadyArray = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                                   py::detail::npy_api::NPY_ARRAY_ALIGNED_;

template <class T>
bool is_ready(const py::array& array) {
  const py::dtype type = array.dtype();
  const char order = py::detail::array_descriptor_proxy(type.ptr())->byteorder;
  const char foreign = std::endian::native == std::endian::little ? '>' : '<';
  return type.kind() == py::dtype::of<T>().kind() &&
         array.itemsize() == static_cast<py::ssize_t>(sizeof(T)) &&
         (array.flags() & kReadyArray) == kReadyArray && order != foreign;
}

// The argument as an array of numpy's choice.
inline py::array any_array(py::handle source, Refusal refuse) {
  if (PyUnicode_Check(source.ptr()) || PyBytes_Check(source.ptr()) ||
      source.is_none()) {
    refuse();
  }
  const auto array = py::array::ensure(source);  // clears numpy's own error
  if (!array) refuse();
  return array;
}

inline void load_ids(py::handle source, Ids& ids, const char* argument,
                     Refusal refuse) {
  const py::array array = any_array(source, refuse);
  if (array.ndim() > 1) refuse();
  const auto count = static_cast<std::size_t>(array.size());
  if (array.ndim() == 1 && is_ready<std::int64_t>(array)) {
    ids.keep = array;
    ids.pin = pin(array);
    ids.values = {static_cast<const std::int64_t*>(array.data()), count};
    return;
  }
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u' && count > 0) refuse();
  ids.converted.resize(count);
  if (kind == 'u') {
    const auto wide =
        py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>(array);
    for (std::size_t i = 0; i < count; ++i) {
      if (wide.data()[i] >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw InvalidArgumentError(std::string(argument) +
                                   ": must be from -2**63 to 2**63 - 1");
      }
      ids.converted[i] = static_cast<std::int64_t>(wide.data()[i]);
    }
  } else if (count > 0) {
    const auto wide =
        py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>(array);
    std::copy_n(wide.data(), count, ids.converted.begin());
  }
  ids.values = ids.converted;
}

inline void load_vectors(py::handle source, Vectors& vectors, int least_dims,
                         Refusal refuse) {
  const py::array array = any_array(source, refuse);
  if (array.ndim() < least_dims || array.ndim() > 2) refuse();
  vectors.is_matrix = array.ndim() == 2;
  vectors.rows = vectors.is_matrix ? static_cast<std::size_t>(array.shape(0)) : 1;
  vectors.columns = static_cast<std::size_t>(array.shape(array.ndim() - 1));
  const auto count = static_cast<std::size_t>(array.size());
  if (is_ready<float>(array)) {
    vectors.keep = array;
    vectors.pin = pin(array);
    vectors.values = {static_cast<const float*>(array.data()), count};
    return;
  }
  const char kind = array.dtype().kind();
  if (kind != 'f' && kind != 'i' && kind != 'u') refuse();
  const auto wide =
      py::array_t<double, py::array::c_style | py::array::forcecast>(array);
  vectors.converted.resize(count);
  constexpr double kMost = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < count; ++i) {
    const double value = wide.data()[i];
    // What no float holds is refused with Inf.
    vectors.converted[i] = value > kMost    ? std::numeric_limits<float>::infinity()
                           : value < -kMost ? -std::numeric_limits<float>::infinity()
                                            : static_cast<float>(value);
  }
  vectors.values = vectors.converted;
}

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::Ids> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Ids, const_name("numpy.typing.ArrayLike"));
  bool load(handle source, bool) {
    vecall::bindings::load_ids(source, value, "ids", [] {
      throw vecall::InvalidTypeError(
          "ids: expected one integer or a 1-D array or list of integers");
    });
    return true;
  }
};

template <>
struct type_caster<vecall::bindings::Only> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Only, const_name("numpy.typing.ArrayLike"));
  bool load(handle source, bool) {
    constexpr vecall::bindings::Refusal kRefuse = [] {
      throw vecall::InvalidTypeError(
          "only: expected a 1-D array or list of ids, or a mask with one bool for each "
          "of Index.ids");
    };
    const array given = vecall::bindings::any_array(source, kRefuse);
    if (given.dtype().kind() != 'b') {
      vecall::bindings::load_ids(given, value.ids, "only", kRefuse);
      return true;
    }
    if (given.ndim() != 1) kRefuse();
    const array_t<bool, array::c_style | array::forcecast> mask(given);
    value.is_mask = true;
    value.mask.assign(mask.data(), mask.data() + mask.size());
    return true;
  }
};

template <vecall::bindings::Name kName, int kLeastDims>
struct type_caster<vecall::bindings::VectorsArg<kName, kLeastDims>> {
  using Argument = vecall::bindings::VectorsArg<kName, kLeastDims>;
  PYBIND11_TYPE_CASTER(Argument, const_name("numpy.typing.ArrayLike"));
  bool load(handle source, bool) {
    vecall::bindings::load_vectors(source, value, kLeastDims, [] {
      throw vecall::InvalidTypeError(vecall::bindings::said_of<kName>(
          kLeastDims == 1 ? "expected a 1-D or 2-D array or list of numbers"
                          : "expected a 2-D array or list of numbers"));
    });
    return true;
  }
};

template <>
struct type_caster<vecall::bindings::IndexDim> {
  PYBIND11_TYPE_CASTER(vecall::bindings::IndexDim, const_name("int"));
  bool load(handle source, bool) {
    constexpr const char* kRule = "dim: expected an integer from 1 to 65536";
    const auto dim = vecall::bindings::load_whole(source);
    if (!dim) throw vecall::InvalidTypeError(kRule);
    if (dim->overflow != 0 || dim->value < 1 ||
        dim->value > static_cast<long long>(vecall::kMaxDim)) {
      throw vecall::InvalidArgumentError(kRule);
    }
    value.value = static_cast<std::size_t>(dim->value);
    return true;
  }
  static handle cast(vecall::bindings::IndexDim dim, return_value_policy, handle) {
    return PyLong_FromSize_t(dim.value);
  }
};

template <>
struct type_caster<vecall::bindings::ThreadCount> {
  PYBIND11_TYPE_CASTER(vecall::bindings::ThreadCount, const_name("int"));
  bool load(handle source, bool) {
    constexpr const char* kRule =
        "threads: expected an integer of at least 1, or -1 for one a processor";
    const auto count = vecall::bindings::load_whole(source);
    if (!count) throw vecall::InvalidTypeError(kRule);
    const bool is_largest = count->overflow > 0 || count->value == -1;
    if (count->overflow < 0 || (!is_largest && count->value < 1)) {
      throw vecall::InvalidArgumentError(kRule);
    }
    value.value = is_largest ? static_cast<std::size_t>(PY_SSIZE_T_MAX)
                             : static_cast<std::size_t>(count->value);
    return true;
  }
  static handle cast(vecall::bindings::ThreadCount threads, return_value_policy,
                     handle) {
    return PyLong_FromSize_t(threads.value);
  }
};

}  // namespace pybind11::detail

#pragma once

// The array arguments of Index. Arrays as the engine wants them are
// borrowed as they are; other numbers, in arrays or in lists, are converted. Errors
// name the argument, never its values.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "casters.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

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

// Any whole numbers.
struct Ids : IdView {
  std::vector<std::int64_t> converted;

  static constexpr auto kHint = const_name("numpy.typing.ArrayLike");
  void load(py::handle source) {
    load(source, "ids", [] {
      throw InvalidTypeError(
          "ids: expected one integer or a 1-D array or list of integers");
    });
  }
  void load(py::handle source, const char* argument, Refusal refuse) {
    const py::array array = any_array(source, refuse);
    if (array.ndim() > 1) refuse();
    if (array.ndim() == 1 && is_ready<std::int64_t>(array)) {
      borrow(array);
      return;
    }
    const auto count = static_cast<std::size_t>(array.size());
    const char kind = array.dtype().kind();
    if (kind != 'i' && kind != 'u' && count > 0) refuse();
    converted.resize(count);
    if (kind == 'u') {
      const auto wide =
          py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>(array);
      for (std::size_t i = 0; i < count; ++i) {
        if (wide.data()[i] >
            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
          throw InvalidArgumentError(std::string(argument) +
                                     ": must be from -2**63 to 2**63 - 1");
        }
        converted[i] = static_cast<std::int64_t>(wide.data()[i]);
      }
    } else if (count > 0) {
      const auto wide =
          py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>(array);
      std::copy_n(wide.data(), count, converted.begin());
    }
    values = converted;
  }
};

// Ids, or a mask with an entry for each id of `Index.ids`.
struct Only {
  Ids ids;
  std::vector<std::uint8_t> mask;
  bool is_mask = false;

  static constexpr auto kHint = const_name("numpy.typing.ArrayLike");
  void load(py::handle source) {
    constexpr Refusal kRefuse = [] {
      throw InvalidTypeError(
          "only: expected a 1-D array or list of ids, or a mask with one bool for each "
          "of Index.ids");
    };
    const py::array given = any_array(source, kRefuse);
    if (given.dtype().kind() != 'b') {
      ids.load(given, "only", kRefuse);
      return;
    }
    if (given.ndim() != 1) kRefuse();
    const py::array_t<bool, py::array::c_style | py::array::forcecast> bools(given);
    is_mask = true;
    mask.assign(bools.data(), bools.data() + bools.size());
  }
};

// One vector or many.
struct Vectors : View<float> {
  bool is_matrix = false;
  std::vector<float> converted;

  void load(py::handle source, int least_dims, Refusal refuse) {
    const py::array array = any_array(source, refuse);
    if (array.ndim() < least_dims || array.ndim() > 2) refuse();
    is_matrix = array.ndim() == 2;
    rows = is_matrix ? static_cast<std::size_t>(array.shape(0)) : 1;
    columns = static_cast<std::size_t>(array.shape(array.ndim() - 1));
    if (is_ready<float>(array)) {
      borrow(array);
      return;
    }
    const char kind = array.dtype().kind();
    if (kind != 'f' && kind != 'i' && kind != 'u') refuse();
    const auto wide =
        py::array_t<double, py::array::c_style | py::array::forcecast>(array);
    converted.resize(static_cast<std::size_t>(array.size()));
    constexpr double kMost = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < converted.size(); ++i) {
      const double value = wide.data()[i];
      // What no float holds is refused with Inf.
      converted[i] = value > kMost    ? std::numeric_limits<float>::infinity()
                     : value < -kMost ? -std::numeric_limits<float>::infinity()
                                      : static_cast<float>(value);
    }
    values = converted;
  }
};

template <Name kName, int kLeastDims = 1>
struct VectorsArg : Vectors {
  static constexpr auto kHint = const_name("numpy.typing.ArrayLike");
  void load(py::handle source) {
    Vectors::load(source, kLeastDims, [] {
      throw InvalidTypeError(said_of<kName>(
          kLeastDims == 1 ? "expected a 1-D or 2-D array or list of numbers"
                          : "expected a 2-D array or list of numbers"));
    });
  }
};

// Length of the vectors of an Index, from 1 to kMaxDim.
struct IndexDim {
  std::size_t value;

  static constexpr auto kHint = const_name("int");
  void load(py::handle source) {
    constexpr const char* kRule = "dim: expected an integer from 1 to 65536";
    value = load_number(source, 1, [](const char*) { return kRule; });
    if (value > kMaxDim) throw InvalidArgumentError(kRule);
  }
};

// How many threads; -1, the largest number here, for one a processor.
struct ThreadCount {
  std::size_t value;

  static constexpr auto kHint = const_name("int");
  void load(py::handle source) {
    constexpr const char* kRule =
        "threads: expected an integer of at least 1, or -1 for one a processor";
    value = load_number(source, -1, [](const char*) { return kRule; });
    if (value == 0) throw InvalidArgumentError(kRule);
  }
  [[nodiscard]] py::handle as_python() const { return PyLong_FromSize_t(value); }
};

}  // namespace vecall::bindings

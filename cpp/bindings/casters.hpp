#pragma once

// Python arguments as borrowed C++ views. Each caster checks type, dtype and shape
// itself: pybind11's own TypeError prints every argument, which would put vectors and
// names into logs. Arrays that are not contiguous, aligned or in native byte order are
// copied.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pin.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

namespace py = pybind11;

// The name of an argument as a template parameter, so that its errors can name it.
template <std::size_t kSize>
struct Name {
  char text[kSize] = {};

  constexpr Name(const char (&name)[kSize]) { std::copy_n(name, kSize, text); }
};

// The start of every error of an argument.
template <Name kName>
std::string said_of(const char* rule) {
  return std::string(kName.text) + ": " + rule;
}

// A numpy array of T and of `kDims` dimensions, valid for the call.
template <class T, int kDims>
struct ArrayView {
  std::span<const T> values;
  std::size_t rows = 0;
  std::size_t columns = 1;
  py::object keep;  // the copy, where one was needed
  py::object pin;   // else holds the memory of the caller's array
};

using IdView = ArrayView<std::int64_t, 1>;
using HashView = ArrayView<std::uint64_t, 1>;

template <class T, int kDims, Name kName>
struct ArrayArg : ArrayView<T, kDims> {};

template <Name kName>
using FloatVector = ArrayArg<float, 1, kName>;
using FloatMatrix = ArrayArg<float, 2, "vectors">;
template <Name kName>
using IdVector = ArrayArg<std::int64_t, 1, kName>;
template <Name kName>
using HashVector = ArrayArg<std::uint64_t, 1, kName>;
using ByteVector = ArrayArg<std::uint8_t, 1, "has_vector">;

// Positions in sessions: float64, or int32, which is converted.
struct PositionVector : ArrayView<double, 1> {};

// The view of an optional argument, null for None.
template <class T, int kDims, Name kName>
const ArrayView<T, kDims>* view_of(const std::optional<ArrayArg<T, kDims, kName>>& of) {
  return of ? &*of : nullptr;
}

// A whole number of at least kLeast. Numbers that do not fit are taken as the largest
// that does: more than there is of anything.
template <Name kName, int kLeast>
struct Number {
  std::size_t value;
};

using Count = Number<"k", 1>;
using Ef = Number<"ef", 1>;
using Candidates = Number<"candidates", 1>;
using Dim = Number<"dim", 0>;
using Links = Number<"m", 2>;
using BuildBreadth = Number<"ef_construction", 1>;
using FlatBytes = Number<"flat_bytes", 0>;

// 64 bits, with a sign or without one: times and hashes.
template <class T, Name kName>
struct Bits64 {
  T value;
};
template <Name kName>
using HashArg = Bits64<std::uint64_t, kName>;
template <Name kName>
using TimeArg = Bits64<std::int64_t, kName>;
using Seed = HashArg<"seed">;

template <class T, Name kName>
std::optional<T> value_of(const std::optional<Bits64<T, kName>>& of) {
  return of ? std::optional<T>(of->value) : std::nullopt;
}

// A float; whole numbers are taken too.
template <Name kName>
struct Real {
  float value;
};

// (app, user): two non-empty strings without NUL.
struct Key {
  PartitionKey value;
};

// A file's name in the encoding of the file system.
struct Path {
  std::string value;
};

// Hashes of words.
template <Name kName>
struct TermList {
  std::vector<TermHash> values;
};

// An integer as a long long; `overflow` is its sign where it does not fit.
struct WholeNumber {
  long long value;
  int overflow;
};

// None for what is no integer; bools are none.
inline std::optional<WholeNumber> load_whole(py::handle source) {
  PyObject* number =
      PyBool_Check(source.ptr()) ? nullptr : PyNumber_Index(source.ptr());
  if (number == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto owned = py::reinterpret_steal<py::object>(number);
  WholeNumber whole{};
  whole.value = PyLong_AsLongLongAndOverflow(number, &whole.overflow);
  return whole;
}

// Throws what is wrong with an argument.
using Refusal = void (*)();

template <class T, int kDims>
void load_array(py::handle source, ArrayView<T, kDims>& view, Refusal refuse) {
  if (!py::isinstance<py::array>(source)) refuse();
  const auto array = py::reinterpret_borrow<py::array>(source);
  const auto wanted = py::dtype::of<T>();
  const bool right_type =
      array.dtype().kind() == wanted.kind() && array.itemsize() == wanted.itemsize();
  if (!right_type || array.ndim() != kDims) refuse();
  constexpr int kReady = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                         py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  const void* data = nullptr;
  const bool native =
      py::detail::array_descriptor_proxy(array.dtype().ptr())->byteorder !=
      (std::endian::native == std::endian::little ? '>' : '<');
  if ((array.flags() & kReady) != kReady || !native) {
    const auto copy = py::array_t<T, kReady | py::array::forcecast>(array);
    view.keep = copy;
    data = copy.data();
  } else {
    view.pin = pin(array);
    data = array.data();
  }
  view.rows = static_cast<std::size_t>(array.shape(0));
  if constexpr (kDims == 2) view.columns = static_cast<std::size_t>(array.shape(1));
  view.values = {static_cast<const T*>(data), view.rows * view.columns};
}

inline void load_positions(py::handle source, PositionVector& view, Refusal refuse) {
  ArrayView<double, 1>& doubles = view;
  if (py::isinstance<py::array>(source)) {
    const auto array = py::reinterpret_borrow<py::array>(source);
    if (array.dtype().kind() == 'i' && array.itemsize() == sizeof(std::int32_t)) {
      const auto converted =
          py::array_t<double, py::array::c_style | py::array::forcecast>(array);
      load_array(converted, doubles, refuse);
      view.keep = converted;
      return;
    }
  }
  load_array(source, doubles, refuse);
}

inline std::string_view load_name(py::handle source, const char* rule) {
  if (!PyUnicode_Check(source.ptr())) throw InvalidTypeError(rule);
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(source.ptr(), &length);
  if (text == nullptr) {
    PyErr_Clear();  // a lone surrogate; Python's message would print the name
    throw InvalidArgumentError(rule);
  }
  const std::string_view name(text, static_cast<std::size_t>(length));
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    throw InvalidArgumentError(rule);
  }
  return name;
}

}  // namespace vecall::bindings

namespace pybind11::detail {

template <class T, int kDims, vecall::bindings::Name kName>
struct type_caster<vecall::bindings::ArrayArg<T, kDims, kName>> {
  using Argument = vecall::bindings::ArrayArg<T, kDims, kName>;
  PYBIND11_TYPE_CASTER(Argument, const_name("numpy.typing.NDArray[") +
                                     npy_format_descriptor<T>::name + const_name("]"));
  bool load(handle source, bool) {
    vecall::bindings::load_array<T, kDims>(source, value, [] {
      constexpr auto kType = npy_format_descriptor<T>::name;
      throw vecall::InvalidTypeError(
          vecall::bindings::said_of<kName>(kDims == 1
                                               ? "expected a 1-D numpy array of "
                                               : "expected a 2-D numpy array of ") +
          std::string(kType.text).substr(sizeof("numpy.") - 1));
    });
    return true;
  }
};

template <>
struct type_caster<vecall::bindings::PositionVector> {
  PYBIND11_TYPE_CASTER(vecall::bindings::PositionVector,
                       const_name("numpy.typing.NDArray[numpy.float64]"));
  bool load(handle source, bool) {
    vecall::bindings::load_positions(source, value, [] {
      throw vecall::InvalidTypeError(
          "positions: expected a 1-D numpy array of float64 or int32");
    });
    return true;
  }
};

template <vecall::bindings::Name kName, int kLeast>
struct type_caster<vecall::bindings::Number<kName, kLeast>> {
  using Argument = vecall::bindings::Number<kName, kLeast>;
  PYBIND11_TYPE_CASTER(Argument, const_name("int"));
  bool load(handle source, bool) {
    const auto message = [](const char* verb) {
      return vecall::bindings::said_of<kName>(verb) + " an integer of at least " +
             std::to_string(kLeast);
    };
    const auto number = vecall::bindings::load_whole(source);
    if (!number) throw vecall::InvalidTypeError(message("expected"));
    if (number->overflow < 0 || (number->overflow == 0 && number->value < kLeast)) {
      throw vecall::InvalidArgumentError(message("must be"));
    }
    value.value = number->overflow > 0 ? static_cast<std::size_t>(PY_SSIZE_T_MAX)
                                       : static_cast<std::size_t>(number->value);
    return true;
  }
  static handle cast(Argument number, return_value_policy, handle) {
    return PyLong_FromSize_t(number.value);
  }
};

template <class T, vecall::bindings::Name kName>
struct type_caster<vecall::bindings::Bits64<T, kName>> {
  using Argument = vecall::bindings::Bits64<T, kName>;
  PYBIND11_TYPE_CASTER(Argument, const_name("int"));
  bool load(handle source, bool) {
    const auto message = [] {
      return vecall::bindings::said_of<kName>(
          std::is_signed_v<T> ? "expected an integer from -2**63 to 2**63 - 1"
                              : "expected an integer from 0 to 2**64 - 1");
    };
    PyObject* number =
        PyBool_Check(source.ptr()) ? nullptr : PyNumber_Index(source.ptr());
    if (number == nullptr) {
      PyErr_Clear();
      throw vecall::InvalidTypeError(message());
    }
    const auto owned = reinterpret_steal<object>(number);
    if constexpr (std::is_signed_v<T>) {
      value.value = PyLong_AsLongLong(number);
    } else {
      value.value = PyLong_AsUnsignedLongLong(number);
    }
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw vecall::InvalidArgumentError(message());
    }
    return true;
  }
  static handle cast(Argument bits, return_value_policy, handle) {
    if constexpr (std::is_signed_v<T>) return PyLong_FromLongLong(bits.value);
    return PyLong_FromUnsignedLongLong(bits.value);
  }
};

template <vecall::bindings::Name kName>
struct type_caster<vecall::bindings::Real<kName>> {
  using Argument = vecall::bindings::Real<kName>;
  PYBIND11_TYPE_CASTER(Argument, const_name("float"));
  bool load(handle source, bool) {
    const bool is_number = PyFloat_Check(source.ptr()) || PyLong_Check(source.ptr());
    const double number = is_number ? PyFloat_AsDouble(source.ptr()) : 0.0;
    if (!is_number || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw vecall::InvalidTypeError(
          vecall::bindings::said_of<kName>("expected a float"));
    }
    value.value = static_cast<float>(number);
    return true;
  }
};

template <>
struct type_caster<vecall::bindings::Path> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Path, const_name("str | os.PathLike[str]"));
  bool load(handle source, bool) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      PyErr_Clear();  // Python's message would print the argument
      throw vecall::InvalidTypeError(
          "path: expected a str or an os.PathLike without NUL");
    }
    value.value = reinterpret_steal<bytes>(encoded);
    return true;
  }
};

template <>
struct type_caster<vecall::bindings::Key> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Key, const_name("tuple[str, str]"));
  bool load(handle source, bool) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != 2) {
      throw vecall::InvalidTypeError("key: expected a tuple (app_name, user_id)");
    }
    value.value.app = vecall::bindings::load_name(
        PyTuple_GET_ITEM(source.ptr(), 0),
        "app_name: must be a non-empty string without NUL or lone surrogates");
    value.value.user = vecall::bindings::load_name(
        PyTuple_GET_ITEM(source.ptr(), 1),
        "user_id: must be a non-empty string without NUL or lone surrogates");
    return true;
  }
};

template <vecall::bindings::Name kName>
struct type_caster<vecall::bindings::TermList<kName>> {
  using Argument = vecall::bindings::TermList<kName>;
  PYBIND11_TYPE_CASTER(Argument, const_name("list[int]"));
  bool load(handle source, bool) {
    if (!PyList_Check(source.ptr())) refuse();
    const auto list = reinterpret_borrow<pybind11::list>(source);
    value.values.reserve(list.size());
    for (const handle item : list) {
      const std::uint64_t hash = PyLong_AsUnsignedLongLong(item.ptr());
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse();
      }
      value.values.push_back(hash);
    }
    return true;
  }

 private:
  [[noreturn]] static void refuse() {
    throw vecall::InvalidTypeError(
        vecall::bindings::said_of<kName>("expected a list of 64-bit hashes"));
  }
};

}  // namespace pybind11::detail

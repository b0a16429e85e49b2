#pragma once

// Python arguments as borrowed C++ views. Each caster checks type, dtype and shape
// itself: pybind11's own TypeError prints every argument, which would put vectors and
// names into logs. Arrays that are not contiguous, aligned or in native byte order are
// copied.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pin.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

namespace py = pybind11;

// A numpy array of T and of `Dims` dimensions, valid for the call.
template <class T, int Dims>
struct ArrayView {
  std::span<const T> values;
  std::size_t rows = 0;
  std::size_t columns = 1;
  py::object keep;  // the copy, where one was needed
  py::object pin;   // else holds the memory of the caller's array
};

using FloatVector = ArrayView<float, 1>;
using FloatMatrix = ArrayView<float, 2>;
using IdVector = ArrayView<std::int64_t, 1>;
using HashVector = ArrayView<std::uint64_t, 1>;
using ByteVector = ArrayView<std::uint8_t, 1>;

// Positions in sessions: float64, or int32, which is converted.
struct PositionVector : ArrayView<double, 1> {};

// A whole number of at least Tag::kLeast; its errors name the argument. Numbers that do
// not fit are taken as the largest that does: more than there is of anything.
template <class Tag>
struct Number {
  std::size_t value;
};

struct CountTag {
  static constexpr const char* kName = "k";
  static constexpr int kLeast = 1;
};
struct EfTag {
  static constexpr const char* kName = "ef";
  static constexpr int kLeast = 1;
};
struct CandidatesTag {
  static constexpr const char* kName = "candidates";
  static constexpr int kLeast = 1;
};
struct DimTag {
  static constexpr const char* kName = "dim";
  static constexpr int kLeast = 0;
};
struct LinksTag {
  static constexpr const char* kName = "m";
  static constexpr int kLeast = 2;
};
struct BuildBreadthTag {
  static constexpr const char* kName = "ef_construction";
  static constexpr int kLeast = 1;
};
struct FlatBytesTag {
  static constexpr const char* kName = "flat_bytes";
  static constexpr int kLeast = 0;
};
struct ThreadsTag {
  static constexpr const char* kName = "threads";
  static constexpr int kLeast = 1;
};
using Count = Number<CountTag>;
using Ef = Number<EfTag>;
using Candidates = Number<CandidatesTag>;
using Dim = Number<DimTag>;
using Links = Number<LinksTag>;
using BuildBreadth = Number<BuildBreadthTag>;
using FlatBytes = Number<FlatBytesTag>;
using Threads = Number<ThreadsTag>;

// Any 64 bits.
struct Seed {
  std::uint64_t value;
};

// A float; whole numbers are taken too.
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

// The words of a query.
struct TermList {
  std::vector<TermHash> values;
};

template <class T, int Dims>
void load_array(py::handle source, ArrayView<T, Dims>& view, const char* expected) {
  if (!py::isinstance<py::array>(source)) throw InvalidTypeError(expected);
  const auto array = py::reinterpret_borrow<py::array>(source);
  const auto wanted = py::dtype::of<T>();
  const bool right_type =
      array.dtype().kind() == wanted.kind() && array.itemsize() == wanted.itemsize();
  if (!right_type || array.ndim() != Dims) throw InvalidTypeError(expected);
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
  if constexpr (Dims == 2) view.columns = static_cast<std::size_t>(array.shape(1));
  view.values = {static_cast<const T*>(data), view.rows * view.columns};
}

inline void load_positions(py::handle source, PositionVector& view,
                           const char* expected) {
  ArrayView<double, 1>& doubles = view;
  if (py::isinstance<py::array>(source)) {
    const auto array = py::reinterpret_borrow<py::array>(source);
    if (array.dtype().kind() == 'i' && array.itemsize() == sizeof(std::int32_t)) {
      const auto converted =
          py::array_t<double, py::array::c_style | py::array::forcecast>(array);
      load_array(converted, doubles, expected);
      view.keep = converted;
      return;
    }
  }
  load_array(source, doubles, expected);
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

#define VECALL_ARRAY_CASTER(Type, stub, expected)                   \
  template <>                                                       \
  struct type_caster<vecall::bindings::Type> {                      \
    PYBIND11_TYPE_CASTER(vecall::bindings::Type, const_name(stub)); \
    bool load(handle source, bool) {                                \
      vecall::bindings::load_array(source, value, expected);        \
      return true;                                                  \
    }                                                               \
  };

VECALL_ARRAY_CASTER(FloatVector, "numpy.typing.NDArray[numpy.float32]",
                    "query: expected a 1-D numpy array of float32")
VECALL_ARRAY_CASTER(FloatMatrix, "numpy.typing.NDArray[numpy.float32]",
                    "vectors: expected a 2-D numpy array of float32")
VECALL_ARRAY_CASTER(
    IdVector, "numpy.typing.NDArray[numpy.int64]",
    "ids, times, expires, offsets and only: expected 1-D numpy arrays of int64")
VECALL_ARRAY_CASTER(
    HashVector, "numpy.typing.NDArray[numpy.uint64]",
    "sessions, authors, kinds and terms: expected 1-D numpy arrays of uint64")
VECALL_ARRAY_CASTER(ByteVector, "numpy.typing.NDArray[numpy.uint8]",
                    "has_vector: expected a 1-D numpy array of uint8")

#undef VECALL_ARRAY_CASTER

template <>
struct type_caster<vecall::bindings::PositionVector> {
  PYBIND11_TYPE_CASTER(vecall::bindings::PositionVector,
                       const_name("numpy.typing.NDArray[numpy.float64]"));
  bool load(handle source, bool) {
    vecall::bindings::load_positions(
        source, value, "positions: expected a 1-D numpy array of float64 or int32");
    return true;
  }
};

template <class Tag>
struct type_caster<vecall::bindings::Number<Tag>> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Number<Tag>, const_name("int"));
  bool load(handle source, bool) {
    const auto message = [](const char* middle) {
      return std::string(Tag::kName) + middle + " an integer of at least " +
             std::to_string(Tag::kLeast);
    };
    PyObject* number =
        PyBool_Check(source.ptr()) ? nullptr : PyNumber_Index(source.ptr());
    if (number == nullptr) {
      PyErr_Clear();
      throw vecall::InvalidTypeError(message(": expected"));
    }
    const auto owned = reinterpret_steal<object>(number);
    int overflow = 0;
    const long long count = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow < 0 || (overflow == 0 && count < Tag::kLeast)) {
      throw vecall::InvalidArgumentError(message(": must be"));
    }
    value.value = overflow > 0 ? static_cast<std::size_t>(PY_SSIZE_T_MAX)
                               : static_cast<std::size_t>(count);
    return true;
  }
  static handle cast(vecall::bindings::Number<Tag> number, return_value_policy,
                     handle) {
    return PyLong_FromSize_t(number.value);
  }
};

template <>
struct type_caster<vecall::bindings::Seed> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Seed, const_name("int"));
  bool load(handle source, bool) {
    constexpr const char* kRule = "seed: expected an integer from 0 to 2**64 - 1";
    PyObject* number =
        PyBool_Check(source.ptr()) ? nullptr : PyNumber_Index(source.ptr());
    if (number == nullptr) {
      PyErr_Clear();
      throw vecall::InvalidTypeError(kRule);
    }
    const auto owned = reinterpret_steal<object>(number);
    value.value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw vecall::InvalidArgumentError(kRule);
    }
    return true;
  }
  static handle cast(vecall::bindings::Seed seed, return_value_policy, handle) {
    return PyLong_FromUnsignedLongLong(seed.value);
  }
};

template <>
struct type_caster<vecall::bindings::Real> {
  PYBIND11_TYPE_CASTER(vecall::bindings::Real, const_name("float"));
  bool load(handle source, bool) {
    if (!PyFloat_Check(source.ptr()) && !PyLong_Check(source.ptr())) return false;
    const double number = PyFloat_AsDouble(source.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    value.value = static_cast<float>(number);
    return true;
  }
  static handle cast(vecall::bindings::Real number, return_value_policy, handle) {
    return PyFloat_FromDouble(static_cast<double>(number.value));
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

template <>
struct type_caster<vecall::bindings::TermList> {
  PYBIND11_TYPE_CASTER(vecall::bindings::TermList, const_name("list[int]"));
  bool load(handle source, bool) {
    if (!PyList_Check(source.ptr())) {
      throw vecall::InvalidTypeError("terms: expected a list of 64-bit hashes");
    }
    const auto list = reinterpret_borrow<pybind11::list>(source);
    value.values.reserve(list.size());
    for (const handle item : list) {
      const std::uint64_t hash = PyLong_AsUnsignedLongLong(item.ptr());
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        throw vecall::InvalidTypeError("terms: expected a list of 64-bit hashes");
      }
      value.values.push_back(hash);
    }
    return true;
  }
};

}  // namespace pybind11::detail

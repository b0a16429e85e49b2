#pragma once

// Python arguments as borrowed C++ views. Each kind of argument is a struct that says
// its Python type, kHint, and checks and converts what is passed in load(); those with
// a default say it by as_python(). One caster at the end leads pybind11 to them. Errors
// name the argument, never its values: pybind11's own TypeError prints every argument,
// which would put vectors and names into logs. Arrays that are not contiguous, aligned
// or in native byte order are copied.

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
using py::detail::const_name;

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

// Throws what is wrong with an argument.
using Refusal = void (*)();

inline constexpr int kReadyArray = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                                   py::detail::npy_api::NPY_ARRAY_ALIGNED_;

template <class T>
bool has_type(const py::array& array) {
  return array.dtype().kind() == py::dtype::of<T>().kind() &&
         array.itemsize() == static_cast<py::ssize_t>(sizeof(T));
}

// Whether the engine can read the array where it is.
template <class T>
bool is_ready(const py::array& array) {
  const char order = py::detail::array_descriptor_proxy(array.dtype().ptr())->byteorder;
  const char foreign = std::endian::native == std::endian::little ? '>' : '<';
  return has_type<T>(array) && (array.flags() & kReadyArray) == kReadyArray &&
         order != foreign;
}

// Numbers of an array, valid for the call.
template <class T>
struct View {
  std::span<const T> values;
  std::size_t rows = 0;
  std::size_t columns = 1;
  py::object keep;
  py::object pin;  // holds the memory where it is

  // REQUIRES: is_ready<T>(array).
  void borrow(const py::array& array) {
    keep = array;
    pin = bindings::pin(array);
    values = {static_cast<const T*>(array.data()),
              static_cast<std::size_t>(array.size())};
  }
};

using IdView = View<std::int64_t>;
using HashView = View<std::uint64_t>;

template <class T>
void load_array(py::handle source, int dims, View<T>& view, Refusal refuse) {
  if (!py::isinstance<py::array>(source)) refuse();
  const auto array = py::reinterpret_borrow<py::array>(source);
  if (!has_type<T>(array) || array.ndim() != dims) refuse();
  view.borrow(is_ready<T>(array)
                  ? array
                  : py::array_t<T, kReadyArray | py::array::forcecast>(array));
  view.rows = static_cast<std::size_t>(array.shape(0));
  if (dims == 2) view.columns = static_cast<std::size_t>(array.shape(1));
}

// A numpy array of T and of `kDims` dimensions.
template <class T, int kDims, Name kName>
struct ArrayArg : View<T> {
  static constexpr auto kHint = const_name("numpy.typing.NDArray[") +
                                py::detail::npy_format_descriptor<T>::name +
                                const_name("]");
  void load(py::handle source) {
    load_array<T>(source, kDims, *this, [] {
      constexpr auto kType = py::detail::npy_format_descriptor<T>::name;
      throw InvalidTypeError(said_of<kName>(kDims == 1
                                                ? "expected a 1-D numpy array of "
                                                : "expected a 2-D numpy array of ") +
                             std::string(kType.text).substr(sizeof("numpy.") - 1));
    });
  }
};

template <Name kName>
using FloatVector = ArrayArg<float, 1, kName>;
using FloatMatrix = ArrayArg<float, 2, "vectors">;
template <Name kName>
using IdVector = ArrayArg<std::int64_t, 1, kName>;
template <Name kName>
using HashVector = ArrayArg<std::uint64_t, 1, kName>;
using ByteVector = ArrayArg<std::uint8_t, 1, "has_vector">;

// Positions in sessions: float64, or int32, which is converted.
struct PositionVector : View<double> {
  static constexpr auto kHint = const_name("numpy.typing.NDArray[numpy.float64]");
  void load(py::handle source) {
    py::object given = py::reinterpret_borrow<py::object>(source);
    if (py::isinstance<py::array>(given) &&
        has_type<std::int32_t>(py::reinterpret_borrow<py::array>(given))) {
      given = py::array_t<double, kReadyArray | py::array::forcecast>(given);
    }
    load_array<double>(given, 1, *this, [] {
      throw InvalidTypeError(
          "positions: expected a 1-D numpy array of float64 or int32");
    });
  }
};

// The view of an optional argument, null for None.
template <class T, int kDims, Name kName>
const View<T>* view_of(const std::optional<ArrayArg<T, kDims, kName>>& of) {
  return of ? &*of : nullptr;
}

// The argument as a Python int, null for what is no integer; bools are none.
inline py::object integer_of(py::handle source) {
  PyObject* number =
      PyBool_Check(source.ptr()) ? nullptr : PyNumber_Index(source.ptr());
  if (number == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(number);
}

// A whole number of at least `least`. One that does not fit is taken as the largest
// that does: more than there is of anything. message(verb) is what an error says.
template <class Message>
std::size_t load_number(py::handle source, long long least, Message message) {
  const py::object number = integer_of(source);
  if (!number) throw InvalidTypeError(message("expected"));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow < 0 || (overflow == 0 && value < least)) {
    throw InvalidArgumentError(message("must be"));
  }
  return static_cast<std::size_t>(overflow > 0 ? PY_SSIZE_T_MAX : value);
}

template <Name kName, int kLeast>
struct Number {
  std::size_t value;

  static constexpr auto kHint = const_name("int");
  void load(py::handle source) {
    value = load_number(source, kLeast, [](const char* verb) {
      return said_of<kName>(verb) + " an integer of at least " + std::to_string(kLeast);
    });
  }
  [[nodiscard]] py::handle as_python() const { return PyLong_FromSize_t(value); }
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

  static constexpr auto kHint = const_name("int");
  void load(py::handle source) {
    const auto message = [] {
      return said_of<kName>(std::is_signed_v<T>
                                ? "expected an integer from -2**63 to 2**63 - 1"
                                : "expected an integer from 0 to 2**64 - 1");
    };
    const py::object number = integer_of(source);
    if (!number) throw InvalidTypeError(message());
    if constexpr (std::is_signed_v<T>) {
      value = PyLong_AsLongLong(number.ptr());
    } else {
      value = PyLong_AsUnsignedLongLong(number.ptr());
    }
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw InvalidArgumentError(message());
    }
  }
  [[nodiscard]] py::handle as_python() const {
    if constexpr (std::is_signed_v<T>) return PyLong_FromLongLong(value);
    return PyLong_FromUnsignedLongLong(value);
  }
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

  static constexpr auto kHint = const_name("float");
  void load(py::handle source) {
    const bool is_number = PyFloat_Check(source.ptr()) || PyLong_Check(source.ptr());
    const double number = is_number ? PyFloat_AsDouble(source.ptr()) : 0.0;
    if (!is_number || PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw InvalidTypeError(said_of<kName>("expected a float"));
    }
    value = static_cast<float>(number);
  }
};

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

// (app, user): two non-empty strings without NUL.
struct Key {
  PartitionKey value;

  static constexpr auto kHint = const_name("tuple[str, str]");
  void load(py::handle source) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != 2) {
      throw InvalidTypeError("key: expected a tuple (app_name, user_id)");
    }
    value.app = load_name(
        PyTuple_GET_ITEM(source.ptr(), 0),
        "app_name: must be a non-empty string without NUL or lone surrogates");
    value.user =
        load_name(PyTuple_GET_ITEM(source.ptr(), 1),
                  "user_id: must be a non-empty string without NUL or lone surrogates");
  }
};

// A file's name in the encoding of the file system.
struct Path {
  std::string value;

  static constexpr auto kHint = const_name("str | os.PathLike[str]");
  void load(py::handle source) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) {
      PyErr_Clear();  // Python's message would print the argument
      throw InvalidTypeError("path: expected a str or an os.PathLike without NUL");
    }
    value = py::reinterpret_steal<py::bytes>(encoded);
  }
};

// Hashes of words.
template <Name kName>
struct TermList {
  std::vector<TermHash> values;

  static constexpr auto kHint = const_name("list[int]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) refuse();
    const auto list = py::reinterpret_borrow<py::list>(source);
    values.reserve(list.size());
    for (const py::handle item : list) {
      const std::uint64_t hash = PyLong_AsUnsignedLongLong(item.ptr());
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse();
      }
      values.push_back(hash);
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError(said_of<kName>("expected a list of 64-bit hashes"));
  }
};

}  // namespace vecall::bindings

namespace pybind11::detail {

template <class Argument>
struct type_caster<Argument, std::void_t<decltype(Argument::kHint)>> {
  PYBIND11_TYPE_CASTER(Argument, Argument::kHint);
  bool load(handle source, bool) {
    value.load(source);
    return true;
  }
  static handle cast(const Argument& argument, return_value_policy, handle) {
    return argument.as_python();
  }
};

}  // namespace pybind11::detail

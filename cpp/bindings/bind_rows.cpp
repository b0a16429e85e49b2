#include <pybind11/stl.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "casters.hpp"
#include "strict.hpp"
#include "vecall/errors.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

void append_text(py::handle text, std::string& out) {
  if (PyUnicode_IS_COMPACT_ASCII(text.ptr())) {
    out.append(static_cast<const char*>(PyUnicode_DATA(text.ptr())),
               static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())));
    return;
  }
  // PyUnicode_AsUTF8 would keep the bytes as long as the text.
  const auto bytes =
      py::reinterpret_steal<py::object>(PyUnicode_AsUTF8String(text.ptr()));
  if (!bytes) throw py::error_already_set();
  out.append(PyBytes_AS_STRING(bytes.ptr()),
             static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

// As Python's repr of it.
void append_real(double value, std::string& out) {
  char* const spelled =
      PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (spelled == nullptr) throw py::error_already_set();
  out += spelled;
  PyMem_Free(spelled);
}

// Whether it fits 64 bits.
bool append_integer(py::handle value, std::string& out) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) return false;
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
  return true;
}

struct ValuesArg {
  py::list values;

  static constexpr auto kHint = const_name("list[str | float | None]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) throw InvalidTypeError("values: expected a list");
    values = py::reinterpret_borrow<py::list>(source);
  }
};

// None for a value of another type.
std::optional<py::bytes> joined_values(const ValuesArg& given) {
  std::string out;
  bool is_first = true;
  for (const py::handle value : given.values) {
    if (!is_first) out.push_back('\0');
    is_first = false;
    if (PyUnicode_CheckExact(value.ptr())) {
      append_text(value, out);
    } else if (PyFloat_CheckExact(value.ptr())) {
      append_real(PyFloat_AS_DOUBLE(value.ptr()), out);
    } else if (PyLong_CheckExact(value.ptr())) {
      if (!append_integer(value, out)) return std::nullopt;
    } else if (!value.is_none()) {
      return std::nullopt;
    }
  }
  return py::bytes(out);
}

}  // namespace

void bind_rows(py::module_& module) {
  def_strict(module, "joined_values", &joined_values, "values"_a,
             R"(Joins the texts of a row's values by null characters.

Args:
    values: Each a str, a float, an int or None, which has no text.

Returns:
    The texts in UTF-8, numbers as `repr` spells them. None if a value is of another
    type or an int has more than 64 bits.

Raises:
    UnicodeEncodeError: A text has a lone surrogate.)");
}

}  // namespace vecall::bindings

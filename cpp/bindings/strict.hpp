#pragma once

// Functions whose errors do not print their arguments. When no overload fits a call,
// pybind11 raises a TypeError that quotes every argument: vectors, names, ids. So each
// function gets a last overload that fits any call and raises an error of ours.

#include <pybind11/pybind11.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "vecall/errors.hpp"

namespace vecall::bindings {

namespace py = pybind11;

[[noreturn]] inline void refuse_arguments(const std::string& function) {
  throw InvalidTypeError(function + "(): wrong number, names or types of arguments");
}

// Keeps the documentation of `function` as it is while overloads are added: the one
// that refuses is no offer to anybody.
class KeptDoc {
 public:
  explicit KeptDoc(const py::object& method)
      : definition_(
            reinterpret_cast<PyCFunctionObject*>(py::detail::get_function(method).ptr())
                ->m_ml),
        doc_(definition_->ml_doc == nullptr ? "" : definition_->ml_doc) {}

  void restore() const {
    // pybind11 owns the text by malloc and frees it with the function.
    std::free(const_cast<char*>(definition_->ml_doc));
    definition_->ml_doc = strdup(doc_.c_str());
  }

 private:
  PyMethodDef* definition_;
  std::string doc_;
};

template <class Class, class Function, class... Extra>
void def_strict(Class& bound, const char* name, Function&& function,
                const Extra&... extra) {
  bound.def(name, std::forward<Function>(function), extra...);
  const KeptDoc doc(bound.attr(name));
  bound.def(name, [name](const py::args&, const py::kwargs&) -> py::object {
    refuse_arguments(name);
  });
  doc.restore();
}

template <class Class, class Function, class... Extra>
void def_strict_static(Class& bound, const char* name, Function&& function,
                       const Extra&... extra) {
  bound.def_static(name, std::forward<Function>(function), extra...);
  const KeptDoc doc(bound.attr(name));
  bound.def_static(name, [name](const py::args&, const py::kwargs&) -> py::object {
    refuse_arguments(name);
  });
  doc.restore();
}

// The same for a constructor; `init` is what py::init() returns.
template <class Class, class Init, class... Extra>
void def_strict_init(Class& bound, Init&& init, const Extra&... extra) {
  bound.def(std::forward<Init>(init), extra...);
  const KeptDoc doc(bound.attr("__init__"));
  const std::string name = py::str(bound.attr("__name__"));
  bound.def(
      "__init__",
      [name](py::detail::value_and_holder&, const py::args&, const py::kwargs&) {
        refuse_arguments(name);
      },
      py::detail::is_new_style_constructor());
  doc.restore();
}

}  // namespace vecall::bindings

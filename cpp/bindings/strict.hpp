#pragma once

// Functions whose errors do not print their arguments. When no overload fits a call,
// pybind11 raises a TypeError that quotes every argument: vectors, names, ids. So each
// function gets a last overload that fits any call and raises an error of ours.

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vecall/errors.hpp"

// KeptDoc and the overload for __init__ use what pybind11 does not promise to keep.
static_assert(PYBIND11_VERSION_MAJOR == 3, "read strict.hpp again for this pybind11");

namespace vecall::bindings {

namespace py = pybind11;

// The arguments of a function as its binding names them.
struct Signature {
  std::string function;
  std::vector<std::string> names;
  std::size_t positional = static_cast<std::size_t>(-1);  // of them, from the front
  std::size_t required = 0;                               // likewise

  template <class... Extra>
  explicit Signature(std::string called, const Extra&... extra)
      : function(std::move(called)) {
    (note(extra), ...);
    positional = std::min(positional, names.size());
  }

  // Says what is wrong with a call that fits no overload, but for the values.
  [[noreturn]] void refuse(std::size_t given, const py::kwargs& named) const {
    for (const auto& [key, value] : named) {
      const std::string name = py::str(key);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        constexpr std::size_t kLongest = 40;
        throw InvalidTypeError(function + "(): unknown argument" +
                               (name.size() <= kLongest ? " '" + name + "'" : "") +
                               "; " + allowed());
      }
    }
    if (given > positional) {
      throw InvalidTypeError(function + "(): at most " + std::to_string(positional) +
                             " positional arguments; " + allowed());
    }
    for (std::size_t i = given; i < required; ++i) {
      if (!named.contains(names[i].c_str())) {
        throw InvalidTypeError(function + "(): argument '" + names[i] +
                               "' is missing; " + allowed());
      }
    }
    throw InvalidTypeError(function + "(): an argument of a wrong type; " + allowed());
  }

 private:
  [[nodiscard]] std::string allowed() const {
    if (names.empty()) return "it takes none";
    std::string all = "it takes ";
    for (std::size_t i = 0; i < names.size(); ++i) {
      all += (i == 0 ? "" : ", ") + names[i];
    }
    return all;
  }

  template <class Extra>
  void note(const Extra& extra) {
    if constexpr (std::is_base_of_v<py::arg, Extra>) {
      names.emplace_back(extra.name);
      if constexpr (!std::is_base_of_v<py::arg_v, Extra>) required = names.size();
    } else if constexpr (std::is_same_v<Extra, py::kw_only>) {
      positional = names.size();
    }
  }
};

// Keeps the documentation of `function` as it is while overloads are added: the one
// that refuses is not for callers.
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
  bound.def(name,
            [signature = Signature(name, extra...)](
                const py::args& args, const py::kwargs& named) -> py::object {
              signature.refuse(args.empty() ? 0 : args.size() - 1,
                               named);  // without self
            });
  doc.restore();
}

template <class Class, class Function, class... Extra>
void def_strict_static(Class& bound, const char* name, Function&& function,
                       const Extra&... extra) {
  bound.def_static(name, std::forward<Function>(function), extra...);
  const KeptDoc doc(bound.attr(name));
  bound.def_static(name,
                   [signature = Signature(name, extra...)](
                       const py::args& args, const py::kwargs& named) -> py::object {
                     signature.refuse(args.size(), named);
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
      [signature = Signature(name, extra...)](
          py::detail::value_and_holder&, const py::args& args,
          const py::kwargs& named) { signature.refuse(args.size(), named); },
      py::detail::is_new_style_constructor());
  doc.restore();
}

}  // namespace vecall::bindings

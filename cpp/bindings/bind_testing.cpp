#include <pybind11/stl.h>

#include "bindings.hpp"
#include "casters.hpp"
#include "kernels/dispatch.hpp"
#include "strict.hpp"
#include "vecall/normalise.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

struct Testing {};

}  // namespace

// Single kernels and steps, so that tests can hold each against an independent
// reference on each instruction set. A class of static methods, so that the stub is one
// file.
void bind_testing(py::module_& module) {
  py::class_<Testing> testing(module, "testing", "Parts of the engine, for tests.");
  def_strict_static(
      testing, "dot",
      [](const std::string& isa, const FloatVector<"a">& a, const FloatVector<"b">& b) {
        check_dim(b.rows, a.rows);
        return kernels::table_of(isa).dot(a.values.data(), b.values.data(), a.rows);
      },
      "isa"_a, "a"_a, "b"_a, "The dot product by the kernel of one instruction set.");
  def_strict_static(
      testing, "normalise",
      [](const FloatVector<"vector">& vector) {
        py::array_t<float> out(static_cast<py::ssize_t>(vector.rows));
        check_fault(normalise(vector.values, {out.mutable_data(), vector.rows}));
        return out;
      },
      "vector"_a, "The vector scaled to norm 1.");
}

}  // namespace vecall::bindings

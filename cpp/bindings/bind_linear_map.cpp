#include "bindings.hpp"
#include "casters.hpp"
#include "gil_release.hpp"
#include "gil_release_on_wait.hpp"
#include "index_arguments.hpp"
#include "instances.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/linear_map.hpp"
#include "vecall/normalise.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

LinearMap make_map(const VectorsArg<"matrix", 2>& matrix) {
  const GilRelease release;
  return LinearMap(matrix.values, matrix.columns);
}

Array<float> apply(const LinearMap& map, const VectorsArg<"vectors", 2>& vectors) {
  check_dim(vectors.columns, map.columns());
  Array<float> out({vectors.rows, map.rows()});
  const std::span<float> values(out.mutable_data(), vectors.rows * map.rows());
  with_wait_hook([&](WaitHook hook) { map.apply(vectors.values, values, hook); });
  return out;
}

}  // namespace

void bind_linear_map(py::module_& module) {
  py::class_<LinearMap> bound(module, "LinearMap",
                              R"(A matrix whose products have norm 1.

The rows are stored as 16-bit integers, half of the bytes of float32. Does not change
once it is made; safe to share between threads.

Args:
    matrix: Numbers (n, m), finite as float32, n and m from 1 to 65,536.

Raises:
    InvalidArgumentError: a value is NaN or Inf, or there is none.
    InvalidTypeError: no numbers, or another shape.
    LimitExceededError: more rows or columns.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)");
  def_strict_init(bound, py::init(&make_map), "matrix"_a);
  def_strict(bound, "apply", &apply, "vectors"_a,
             R"(Multiplies the matrix by each vector and scales the product to norm 1.

The same vector gives the same bits on each instruction set, alone and among others.

Args:
    vectors: Numbers (count, m), finite as float32.

Returns:
    float32 (count, n). The product with a zero vector is zero.

Raises:
    InvalidArgumentError: a value is NaN or Inf.
    InvalidTypeError: no numbers, or another shape.
    DimensionError: vectors of another length.)");
  bound.def_property_readonly("nbytes", &LinearMap::nbytes,
                              "Memory that the codes hold, in bytes.");
  // Without this, protocols 0 and 1 would copy an object without its matrix.
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("a LinearMap cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

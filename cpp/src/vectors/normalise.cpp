#include "vecall/normalise.hpp"

#include <cmath>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

struct Norm {
  double value;
  VectorFault fault;
};

Norm norm_of(std::span<const float> vector) {
  // A float squared neither overflows nor vanishes in a double, so only NaN or Inf
  // makes this non-finite, and only zeros make it zero.
  const double norm =
      std::sqrt(kernels::active().squares(vector.data(), vector.size()));
  if (!std::isfinite(norm)) return {0.0, VectorFault::kNotFinite};
  if (norm == 0.0) return {0.0, VectorFault::kZero};
  return {norm, VectorFault::kNone};
}

}  // namespace

VectorFault normalise(std::span<const float> vector, std::span<float> out) {
  VECALL_ASSERT(out.size() == vector.size());
  const Norm norm = norm_of(vector);
  if (norm.fault != VectorFault::kNone) return norm.fault;
  kernels::active().scale(vector.data(), vector.size(), 1.0 / norm.value, out.data());
  return VectorFault::kNone;
}

void check_fault(VectorFault fault, const std::string& argument) {
  switch (fault) {
    case VectorFault::kNone:
      return;
    case VectorFault::kNotFinite:
      throw InvalidArgumentError(argument +
                                 ": every value must be finite, found NaN or Inf");
    case VectorFault::kZero:
      throw InvalidArgumentError(
          argument + ": a vector needs a number other than zero, found a zero vector");
  }
}

void check_dim(std::size_t got, std::size_t dim, const std::string& argument) {
  if (got != dim) {
    throw DimensionError(argument + ": expected dimension " + std::to_string(dim) +
                         ", got " + std::to_string(got));
  }
}

bool normalise_query(std::span<const float> query, std::size_t dim,
                     std::vector<float>& unit) {
  check_dim(query.size(), dim, "query");
  unit.resize(dim);
  const VectorFault fault = normalise(query, unit);
  if (fault == VectorFault::kZero) return false;
  check_fault(fault, "query");
  return true;
}

}  // namespace vecall

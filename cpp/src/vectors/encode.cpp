#include "vectors/encode.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr double kSmallestNorm = 1e-30;

struct Norm {
  double value;
  VectorFault fault;
};

Norm norm_of(std::span<const float> vector) noexcept {
  double squares[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= vector.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      squares[lane] += static_cast<double>(vector[i + lane]) * vector[i + lane];
    }
  }
  for (; i < vector.size(); ++i)
    squares[0] += static_cast<double>(vector[i]) * vector[i];
  // A float squared cannot overflow a double, so only NaN or Inf makes this non-finite.
  const double norm = std::sqrt((squares[0] + squares[1]) + (squares[2] + squares[3]));
  if (!std::isfinite(norm)) return {0.0, VectorFault::kNotFinite};
  if (norm < kSmallestNorm) return {0.0, VectorFault::kZero};
  return {norm, VectorFault::kNone};
}

}  // namespace

VectorFault normalise(std::span<const float> vector, std::span<float> out) noexcept {
  const Norm norm = norm_of(vector);
  if (norm.fault != VectorFault::kNone) return norm.fault;
  const double scale = 1.0 / norm.value;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    out[i] = static_cast<float>(vector[i] * scale);
  }
  return VectorFault::kNone;
}

void require(VectorFault fault, const std::string& argument) {
  switch (fault) {
    case VectorFault::kNone:
      return;
    case VectorFault::kNotFinite:
      throw InvalidArgumentError(argument +
                                 ": every value must be finite, found NaN or Inf");
    case VectorFault::kZero:
      throw InvalidArgumentError(
          argument + ": a vector needs a norm of at least 1e-30, found a zero vector");
  }
}

std::vector<float> normalised_rows(std::span<const float> matrix, std::size_t dim,
                                   std::span<const std::uint8_t> wanted) {
  std::vector<float> rows(wanted.size() * dim, 0.0F);
  std::vector<float> copy(dim);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0) continue;
    const auto row = matrix.subspan(i * dim, dim);
    std::copy(row.begin(), row.end(), copy.begin());
    require(normalise(copy, std::span(rows).subspan(i * dim, dim)));
  }
  return rows;
}

}  // namespace vecall

#include "vectors/encode.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr double kSmallestNorm = 1e-30;

struct Norm {
  double value;
  VectorFault fault;
};

// Four at a time, in the same order on every machine.
using Floats = float __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(32)));

Norm norm_of(std::span<const float> vector) noexcept {
  Doubles sums = {};
  std::size_t i = 0;
  for (; i + 4 <= vector.size(); i += 4) {
    Floats four;
    std::memcpy(&four, vector.data() + i, sizeof(four));
    const Doubles wide = __builtin_convertvector(four, Doubles);
    sums += wide * wide;
  }
  for (; i < vector.size(); ++i) {
    sums[0] += static_cast<double>(vector[i]) * vector[i];
  }
  // A float squared cannot overflow a double, so only NaN or Inf makes this non-finite.
  const double norm = std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (!std::isfinite(norm)) return {0.0, VectorFault::kNotFinite};
  if (norm < kSmallestNorm) return {0.0, VectorFault::kZero};
  return {norm, VectorFault::kNone};
}

}  // namespace

VectorFault normalise(std::span<const float> vector, std::span<float> out) noexcept {
  const Norm norm = norm_of(vector);
  if (norm.fault != VectorFault::kNone) return norm.fault;
  const double scale = 1.0 / norm.value;
  std::size_t i = 0;
  for (; i + 4 <= vector.size(); i += 4) {
    Floats four;
    std::memcpy(&four, vector.data() + i, sizeof(four));
    four =
        __builtin_convertvector(__builtin_convertvector(four, Doubles) * scale, Floats);
    std::memcpy(out.data() + i, &four, sizeof(four));
  }
  for (; i < vector.size(); ++i) out[i] = static_cast<float>(vector[i] * scale);
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

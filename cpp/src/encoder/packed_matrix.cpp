#include "encoder/packed_matrix.hpp"

#include <algorithm>
#include <cmath>

#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr float kMostSteps = 127;
constexpr float kTolerance = 1e-3F;  // of a step; rounding to float alone leaves 1e-5

}  // namespace

PackedMatrix::PackedMatrix(std::size_t depth, std::size_t columns)
    : depth_(depth),
      lines_(depth * columns / sizeof(Line)),
      sums_(columns),
      steps_(columns) {
  VECALL_ASSERT(depth % 4 == 0 && depth <= kernels::kMaxDepth);
  VECALL_ASSERT(columns % kernels::kGroupColumns == 0);
}

bool PackedMatrix::set_columns(std::size_t first, std::span<const float> values) {
  const std::size_t count = values.size() / depth_;
  VECALL_ASSERT(count * depth_ == values.size() && first + count <= columns());
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
    largest = std::max(largest, std::fabs(value));
  }
  const float step = largest > 0 ? largest / kMostSteps : 1;
  std::fill_n(steps_.begin() + static_cast<std::ptrdiff_t>(first), count, step);
  auto* const bytes = reinterpret_cast<std::int8_t*>(lines_.data());
  for (std::size_t row = 0; row < depth_; ++row) {
    for (std::size_t i = 0; i < count; ++i) {
      const float steps = values[row * count + i] / step;
      const float whole = std::round(steps);
      if (std::fabs(steps - whole) > kTolerance) return false;
      const std::size_t column = first + i;
      const std::size_t group = column / kernels::kGroupColumns;
      const std::size_t within = column % kernels::kGroupColumns;
      bytes[group * kernels::kGroupColumns * depth_ +
            row / 4 * 4 * kernels::kGroupColumns + within * 4 + row % 4] =
          static_cast<std::int8_t>(whole);
      sums_[column] += static_cast<std::int32_t>(whole);
    }
  }
  return true;
}

kernels::ByteMatrix PackedMatrix::view() const noexcept {
  return {reinterpret_cast<const std::int8_t*>(lines_.data()), sums_.data(),
          steps_.data(), depth_, columns()};
}

std::size_t PackedMatrix::nbytes() const noexcept {
  return lines_.size() * sizeof(Line) +
         columns() * (sizeof(sums_[0]) + sizeof(steps_[0]));
}

}  // namespace vecall

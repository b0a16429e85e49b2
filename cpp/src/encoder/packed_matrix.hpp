#pragma once

// A matrix of floats that are multiples of one step, packed for kernels::multiply.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_table.hpp"

namespace vecall {

class PackedMatrix {
 public:
  PackedMatrix() = default;  // to be read by each()
  PackedMatrix(std::size_t depth, std::size_t columns);

  // Sets as many columns, from the first on, as `values` (depth, n) has. n is a
  // multiple of kGroupColumns. The step is the largest magnitude through 127; returns
  // whether all values are finite and multiples of it.
  [[nodiscard]] bool set_columns(std::size_t first, std::span<const float> values);

  [[nodiscard]] kernels::ByteMatrix view() const noexcept;
  [[nodiscard]] std::size_t columns() const noexcept { return steps_.size(); }
  [[nodiscard]] bool has_shape(std::size_t depth, std::size_t columns) const noexcept {
    return depth_ == depth && steps_.size() == columns && sums_.size() == columns &&
           lines_.size() == depth * columns / sizeof(Line);
  }
  // The sum of a column's values.
  [[nodiscard]] float column_sum(std::size_t column) const noexcept {
    return static_cast<float>(sums_[column]) * steps_[column];
  }
  [[nodiscard]] std::size_t nbytes() const noexcept;

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.depth_, self.lines_, self.sums_, self.steps_);
  }

 private:
  // Groups begin at a cache line: a load that crosses two takes twice as long.
  struct alignas(64) Line {
    std::int8_t bytes[64];
  };

  std::size_t depth_ = 0;
  std::vector<Line> lines_;
  std::vector<std::int32_t> sums_;
  std::vector<float> steps_;
};

}  // namespace vecall

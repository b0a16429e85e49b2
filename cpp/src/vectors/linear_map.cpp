#include "vecall/linear_map.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"
#include "vecall/errors.hpp"
#include "vecall/normalise.hpp"
#include "vecall/options.hpp"
#include "vecall/types.hpp"
#include "vectors/rotation.hpp"

namespace vecall {

namespace {

constexpr double kLargestCode = 2'047.0;
constexpr double kLargestQueryCode = 4'064.0;

// Codes begin at a cache line: a load that crosses two takes twice as long.
constexpr std::size_t kLineValues = 32;
struct alignas(64) Line {
  std::int16_t values[kLineValues];
};

}  // namespace

struct LinearMap::State {
  Rotation rotation;
  std::size_t columns;
  std::size_t width;          // columns rounded up to whole blocks; the rest is zero
  std::vector<Line> lines;    // codes (rows, width)
  std::vector<double> steps;  // of the codes of each row

  State(std::size_t row_count, std::size_t column_count)
      : rotation(column_count, kRotationSeed),
        columns(column_count),
        width(kernels::width_of(column_count)),
        lines(row_count * width / kLineValues),
        steps(row_count) {}

  [[nodiscard]] const std::int16_t* codes() const noexcept {
    return reinterpret_cast<const std::int16_t*>(lines.data());
  }

  // Rotates and rounds a row of norm 1.
  void encode(std::size_t row, std::vector<float>& unit) noexcept {
    rotation.apply(unit.data());
    float largest = 0;
    for (const float value : unit) largest = std::max(largest, std::fabs(value));
    auto* code = reinterpret_cast<std::int16_t*>(lines.data()) + row * width;
    for (const float value : unit) {
      *code++ = static_cast<std::int16_t>(std::lround(value * kLargestCode / largest));
    }
    steps[row] = static_cast<double>(largest) / kLargestCode;
  }
};

LinearMap::LinearMap(std::span<const float> matrix, std::size_t columns) {
  if (columns == 0 || matrix.empty()) {
    throw InvalidArgumentError("matrix: needs at least one row and one column");
  }
  if (columns > kMaxDim || matrix.size() / columns > kMaxDim) {
    throw LimitExceededError("matrix: must have at most 65536 rows and columns");
  }
  VECALL_ASSERT(matrix.size() % columns == 0);
  const auto& kernel = kernels::active();  // throws where VECALL_ISA cannot run here
  const std::size_t rows = matrix.size() / columns;
  auto state = std::make_unique<State>(rows, columns);
  std::vector<double> norms(rows);
  std::vector<float> unit(columns);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto values = matrix.subspan(i * columns, columns);
    std::copy(values.begin(), values.end(), unit.begin());
    const double norm = std::sqrt(kernel.squares(unit.data(), columns));
    const VectorFault fault = normalise(unit, unit);
    if (fault == VectorFault::kZero) continue;  // its codes and its step stay 0
    check_fault(fault, "matrix");
    state->encode(i, unit);
    norms[i] = norm;
  }
  // Shares of the largest norm, so that no product overflows a float.
  const double largest = *std::max_element(norms.begin(), norms.end());
  for (std::size_t i = 0; i < rows; ++i) {
    if (largest > 0) state->steps[i] *= norms[i] / largest;
  }
  state_ = std::move(state);
}

LinearMap::~LinearMap() = default;
LinearMap::LinearMap(LinearMap&&) noexcept = default;
LinearMap& LinearMap::operator=(LinearMap&&) noexcept = default;

void LinearMap::apply(std::span<const float> vectors, std::span<float> out,
                      WaitHook before_wait) const {
  const std::size_t count = vectors.size() / columns();
  VECALL_ASSERT(vectors.size() % columns() == 0 && out.size() == count * rows());
  if (count * nbytes() > kLongWork) before_wait();
  const auto& kernel = kernels::active();
  const std::size_t width = state_->width;
  std::vector<float> unit(width);
  std::vector<std::int8_t> narrow(width);
  std::vector<std::int16_t> codes(width);
  std::vector<double> sums(rows());
  for (std::size_t i = 0; i < count; ++i) {
    const auto product = out.subspan(i * rows(), rows());
    std::fill(product.begin(), product.end(), 0.0F);
    // Copied first: a caller who changes the values meanwhile cannot slip NaN past.
    const auto values = vectors.subspan(i * columns(), columns());
    std::copy(values.begin(), values.end(), unit.begin());
    const auto part = std::span(unit).first(columns());
    const VectorFault fault = normalise(part, part);
    if (fault == VectorFault::kZero) continue;
    check_fault(fault);
    state_->rotation.apply(unit.data());
    const auto query = kernel.quantise(unit.data(), width, narrow.data(), codes.data());
    // From 32,512 steps to 4,064, rounded.
    for (std::int16_t& code : codes) code = static_cast<std::int16_t>((code + 4) >> 3);
    kernel.sum_int16_rows(state_->codes(), codes.data(), width, rows(), sums.data());
    const double step = static_cast<double>(query.largest) / kLargestQueryCode;
    for (std::size_t row = 0; row < rows(); ++row) {
      product[row] = static_cast<float>(sums[row] * (state_->steps[row] * step));
    }
    static_cast<void>(normalise(product, product));  // leaves a zero product as it is
  }
}

std::size_t LinearMap::rows() const noexcept {
  return state_->steps.size();
}

std::size_t LinearMap::columns() const noexcept {
  return state_->columns;
}

std::size_t LinearMap::nbytes() const noexcept {
  return state_->lines.size() * sizeof(Line) + rows() * sizeof(double) +
         state_->rotation.nbytes();
}

}  // namespace vecall

#include "vectors/row_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr float kLargest = 32'512.0F;  // of a 16-bit code about its middle
constexpr double kMiddle = 32'768.0;
constexpr double kMissingRest = 7.5;  // the middle of the 4 bits that are not stored

float largest_magnitude(const float* x, std::size_t count) noexcept {
  float largest[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      const float magnitude = std::fabs(x[i + lane]);
      largest[lane] = magnitude > largest[lane] ? magnitude : largest[lane];
    }
  }
  for (; i < count; ++i) largest[0] = std::max(largest[0], std::fabs(x[i]));
  return *std::max_element(std::begin(largest), std::end(largest));
}

// Four running sums, in the same order everywhere.
template <class Term>
double sum_of(std::size_t count, Term term) noexcept {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < count; ++i) sums[0] += term(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// As far as rounding to floats allows.
[[maybe_unused]] bool has_norm_1(std::span<const float> x) noexcept {
  double squares = 0;
  for (const float value : x) squares += static_cast<double>(value) * value;
  return std::fabs(squares - 1.0) < 1e-3;
}

// Packs 4-bit values as kernels/kernel_table.hpp wants them.
template <class NibbleAt>
void pack(std::uint8_t* out, std::size_t width, NibbleAt nibble) noexcept {
  for (std::size_t at = 0; at < width; at += kernels::kPlaneBlock) {
    const std::size_t half = (std::min(kernels::kPlaneBlock, width - at)) / 2;
    for (std::size_t j = 0; j < half; ++j) {
      out[at / 2 + j] = static_cast<std::uint8_t>(
          nibble(at + j) | static_cast<unsigned>(nibble(at + half + j)) << 4);
    }
  }
}

}  // namespace

void make_planes(const VectorSpace& space, const float* rotated, std::uint16_t* codes,
                 const RowCodes& row) noexcept {
  const std::size_t width = space.width();
  const float scale = kLargest / largest_magnitude(rotated, space.dim());
  for (std::size_t i = 0; i < width; ++i) {
    // Positive, so that truncation rounds to nearest.
    codes[i] =
        static_cast<std::uint16_t>(static_cast<int>(rotated[i] * scale + 32'768.5F));
  }
  pack(row.high, width, [codes](std::size_t i) { return codes[i] >> 12; });
  if (row.low != nullptr) {
    for (std::size_t i = 0; i < width; ++i) {
      row.low[i] = static_cast<std::uint8_t>(codes[i] >> 4);
    }
  }
  if (row.rest != nullptr) {
    pack(row.rest, width, [codes](std::size_t i) { return codes[i] & 15; });
  }
}

void RowEncoder::prepare(const VectorSpace& space) {
  rotated_.resize(space.width());
  codes_.resize(space.width());
}

void RowEncoder::encode(const VectorSpace& space, std::span<const float> unit,
                        RowCodes row) noexcept {
  VECALL_ASSERT(rotated_.size() == space.width() && unit.size() == space.dim() &&
                has_norm_1(unit));
  const std::size_t dim = space.dim();
  std::fill(rotated_.begin(), rotated_.end(), 0.0F);
  std::copy(unit.begin(), unit.end(), rotated_.begin());
  space.rotation().apply(rotated_.data());
  const float* x = rotated_.data();
  make_planes(space, x, codes_.data(), row);
  const std::uint16_t* u = codes_.data();
  const double squares =
      sum_of(dim, [x](std::size_t i) { return static_cast<double>(x[i]) * x[i]; });
  *row.factor =
      static_cast<float>(squares / sum_of(dim, [x, u](std::size_t i) {
                           return (static_cast<double>(u[i] >> 12) - 7.5) * x[i];
                         }));
  *row.step = 0.0F;
  if (row.low != nullptr) {
    const bool whole = row.rest != nullptr;
    *row.step =
        static_cast<float>(squares / sum_of(dim, [x, u, whole](std::size_t i) {
                             const double rest =
                                 whole ? static_cast<double>(u[i] & 15) : kMissingRest;
                             return ((u[i] & 0xFFF0) + rest - kMiddle) * x[i];
                           }));
  }
  if (row.floats != nullptr) {
    std::memcpy(row.floats, unit.data(), dim * sizeof(float));
  }
}

void EncodedQuery::encode(const VectorSpace& space, std::span<const float> unit) {
  VECALL_ASSERT(unit.size() == space.dim() && has_norm_1(unit));
  unit_ = unit;
  rotated_.resize(space.width());
  std::copy(unit.begin(), unit.end(), rotated_.begin());
  std::fill(rotated_.begin() + static_cast<std::ptrdiff_t>(unit.size()), rotated_.end(),
            0.0F);
  space.rotation().apply(rotated_.data());
  quantise(space);
}

void EncodedQuery::quantise(const VectorSpace& space) {
  const std::size_t width = space.width();
  q8_.resize(width);
  q16_.resize(width);
  const kernels::QuantisedQuery query =
      kernels::active().quantise(rotated_.data(), width, q8_.data(), q16_.data());
  VECALL_ASSERT(std::all_of(q16_.begin(), q16_.end(),
                            [](std::int16_t q) { return std::abs(q) <= 32'512; }));
  // Divided by the rounded query's own product with the query, so that a row equal to
  // the query comes out as 1 and the error of others shrinks with the angle.
  const double step8 = query.along8 > 0 ? 1.0 / query.along8 : 0.0;
  step16_ = query.along16 > 0 ? 1.0 / query.along16 : 0.0;
  code_ = {q8_.data(), width, 15 * query.sum8, static_cast<float>(0.5 * step8)};
  rounding_ = kEstimateDeviation * query.largest / 127.0F *
              std::sqrt(static_cast<float>(space.dim()));
  sum16_ = query.sum16;
}

void EncodedQuery::from_row(const VectorSpace& space, const std::uint8_t* high,
                            float factor) {
  const std::size_t width = space.width();
  q8_.resize(width);
  std::int32_t sum8 = kernels::active().centre(high, width, q8_.data());
  // Padding holds nibble 8; it must count for nothing.
  for (std::size_t i = space.dim(); i < width; ++i) {
    sum8 -= q8_[i];
    q8_[i] = 0;
  }
  code_ = {q8_.data(), width, 15 * sum8, factor / 16.0F * 0.5F};
}

double EncodedQuery::cosine(const VectorSpace& space, const std::uint8_t* high,
                            const std::uint8_t* low, const std::uint8_t* rest,
                            float factor, float step) const noexcept {
  const auto& kernel = kernels::active();
  const std::size_t width = space.width();
  const auto sum16 = static_cast<double>(sum16_);
  double cosine = 0;
  if (low == nullptr) {
    const auto sum = static_cast<double>(kernel.sum_nibbles(high, q16_.data(), width));
    cosine = static_cast<double>(factor) * (sum - 7.5 * sum16);
  } else {
    const auto top =
        static_cast<double>(kernel.sum_high(high, low, q16_.data(), width));
    const double bottom =
        rest == nullptr
            ? kMissingRest * sum16
            : static_cast<double>(kernel.sum_nibbles(rest, q16_.data(), width));
    cosine = static_cast<double>(step) * (16.0 * top + bottom - kMiddle * sum16);
  }
  return cosine * step16_;
}

void EncodedQuery::cosines(const VectorSpace& space, const std::uint8_t* high,
                           const std::uint8_t* low, const std::uint8_t* rest,
                           const float* steps, std::size_t count,
                           double* out) const noexcept {
  const auto& kernel = kernels::active();
  const std::size_t width = space.width();
  const auto sum16 = static_cast<double>(sum16_);
  VECALL_ASSERT(low != nullptr);
  kernel.sum_high_rows(high, low, q16_.data(), width, count, out);
  const auto cosine = [&](std::size_t i, double bottom) {
    const double sum = 16.0 * out[i] + bottom - kMiddle * sum16;
    return static_cast<double>(steps[i]) * sum * step16_;
  };
  if (rest == nullptr) {
    for (std::size_t i = 0; i < count; ++i) out[i] = cosine(i, kMissingRest * sum16);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* nibbles = rest + i * space.rest_bytes();
    const std::int64_t bottom = kernel.sum_nibbles(nibbles, q16_.data(), width);
    out[i] = cosine(i, static_cast<double>(bottom));
  }
}

float EncodedQuery::exact_cosine(const float* floats) const noexcept {
  return kernels::active().dot(unit_.data(), floats, unit_.size());
}

}  // namespace vecall

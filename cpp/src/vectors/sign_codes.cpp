#include "vectors/sign_codes.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kTogether = 4;  // values of a table
constexpr int kLargest = 15;          // of a query's value, in five bits
// Deviations of an estimate by which a row may lie below its cosine.
constexpr float kDeviations = 4.0F;
// What the rounding of the high plane takes from the sum of a row's magnitudes, in
// deviations of an estimate at right angles.
constexpr float kFactorRounding = 0.2F;
constexpr float kHalfPi = 1.5707964F;

// A value of eight bits in five.
int rounded(int q8) noexcept {
  return (q8 * kLargest + (q8 < 0 ? -63 : 63)) / 127;
}

// What four values add where the bits of an entry's place are set, and nowhere less
// than zero.
EncodedSigns::Table table_of(const std::int8_t* q) noexcept {
  using Bytes = std::uint8_t __attribute__((vector_size(16)));
  constexpr Bytes kSet[kTogether] = {
      {0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255},
      {0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255},
      {0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255},
      {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}};
  Bytes sums = {};
  for (std::size_t i = 0; i < kTogether; ++i) {
    // A negative value adds its magnitude where its bit is not set. No branch could
    // predict which are negative.
    const auto magnitude = static_cast<std::uint8_t>(std::abs(q[i]));
    const auto if_negative = static_cast<std::uint8_t>(q[i] >> 7);
    sums += magnitude & (kSet[i] ^ if_negative);
  }
  EncodedSigns::Table table = {};
  std::memcpy(&table, &sums, sizeof(table));
  return table;
}

// Calls visit(low, high) with where two runs of kTogether values begin, whose nibbles
// are the low and the high ones of the same bytes, in the order of the bytes.
template <class Visit>
void for_each_run(std::size_t width, Visit visit) noexcept {
  for (std::size_t at = 0; at < width; at += kernels::kPlaneBlock) {
    const std::size_t half = kernels::half_block(at, width);
    for (std::size_t j = 0; j < half; j += kTogether) visit(at + j, at + half + j);
  }
}

}  // namespace

float sign_factor(const VectorSpace& space, const std::uint8_t* high,
                  float factor) noexcept {
  // Twice the magnitudes of the nibbles, which stand for -7.5 to 7.5. Small values are
  // more frequent than large ones, so rounding adds to the innermost a twelfth of a
  // step.
  std::int32_t twice = 0;
  std::int32_t innermost = 0;
  const auto add = [&](int nibble) {
    const int magnitude = std::abs(2 * nibble - 15);
    twice += magnitude;
    innermost += magnitude == 1 ? 1 : 0;
  };
  for (std::size_t i = 0; i < space.high_bytes(); ++i) {
    add(high[i] & 15);
    add(high[i] >> 4);
  }
  const auto padding = static_cast<std::int32_t>(space.width() - space.dim());
  twice -= padding;
  innermost -= padding;
  const float sum =
      0.5F * static_cast<float>(twice) - static_cast<float>(innermost) / 12.0F;
  return factor > 0 ? 1.0F / (factor * sum) : 0.0F;
}

void put_signs(const VectorSpace& space, const std::uint8_t* high, std::size_t row,
               std::uint8_t* group) noexcept {
  VECALL_ASSERT(row < kernels::kSignGroup);
  std::uint8_t* to = group + row;
  for (std::size_t i = 0; i < space.high_bytes(); i += kTogether) {
    std::uint32_t nibbles = 0;
    std::memcpy(&nibbles, high + i, sizeof(nibbles));
    // The top bits of the low nibbles, then those of the high ones, side by side.
    const std::uint32_t low = ((nibbles >> 3) & 0x0101'0101U) * 0x1020'4080U >> 28;
    const std::uint32_t up = ((nibbles >> 7) & 0x0101'0101U) * 0x1020'4080U >> 28;
    *to = static_cast<std::uint8_t>(low | up << 4);
    to += kernels::kSignGroup;
  }
}

void EncodedSigns::encode(const VectorSpace& space, const EncodedQuery& query) {
  VECALL_ASSERT(space.has_signs());
  const std::size_t width = space.width();
  const std::int8_t* q8 = query.code().q8;
  const float* x = query.rotated();
  q5_.resize(width);
  std::int32_t magnitudes = 0;
  double along[kTogether] = {};
  for (std::size_t i = 0; i < width; i += kTogether) {
    for (std::size_t j = 0; j < kTogether; ++j) {
      const int q = rounded(q8[i + j]);
      magnitudes += std::abs(q);
      along[j] += static_cast<double>(x[i + j]) * q;
      q5_[i + j] = static_cast<std::int8_t>(q);
    }
  }
  tables_.resize(width / kTogether);
  Table* table = tables_.data();
  for_each_run(width, [&](std::size_t low, std::size_t high) {
    *table++ = table_of(q5_.data() + low);
    *table++ = table_of(q5_.data() + high);
  });
  const double all = (along[0] + along[1]) + (along[2] + along[3]);
  const double step = all > 0 ? 1.0 / all : 0.0;
  code_ = {reinterpret_cast<const std::uint8_t*>(tables_.data()), width, magnitudes,
           static_cast<float>(step)};
  dim_ = static_cast<float>(space.dim());
  const float rounding = query.rounding() * (127.0F / kLargest);
  rounding_ = std::sqrt(rounding * rounding + kFactorRounding * kFactorRounding);
}

EncodedSigns::Reach EncodedSigns::reach(float sine) const noexcept {
  // Of a row with factor a, one deviation at right angles is sqrt((d a^2 - 1) /
  // (d - 1)) in d dimensions. The tangent at the factor of normal values lies above it.
  const float usual = std::sqrt(kHalfPi / dim_);
  const float deviation = std::sqrt((kHalfPi - 1.0F) / (dim_ - 1.0F));
  const float slope = dim_ * usual / (deviation * (dim_ - 1.0F));
  const float wide = kDeviations * sine;
  return {wide * slope, wide * (slope * usual - deviation)};
}

}  // namespace vecall

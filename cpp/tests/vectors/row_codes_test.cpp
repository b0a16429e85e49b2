// The codes of a row against a reference in float64: which number each value becomes,
// how the planes hold it, and how far the codes are from the vector.

#include "vectors/row_codes.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine_support.hpp"
#include "vecall/normalise.hpp"

namespace vecall::testing {

namespace {

constexpr double kLargest = 32'512.0;
constexpr double kMiddle = 32'768.0;
constexpr std::size_t kDims[] = {1, 33, 64, 100, 128, 200, 384, 769};

// The memory of one row with every plane.
struct Planes {
  explicit Planes(const VectorSpace& space)
      : high(space.width() / 2, 0xEE),
        low(space.width(), 0xEE),
        rest(space.width() / 2, 0xEE),
        floats(space.dim()) {}

  RowCodes row(bool with_low, bool with_rest) {
    return {high.data(),
            with_low ? low.data() : nullptr,
            with_rest ? rest.data() : nullptr,
            floats.data(),
            &factor,
            &step};
  }

  std::vector<std::uint8_t> high;
  std::vector<std::uint8_t> low;
  std::vector<std::uint8_t> rest;
  std::vector<float> floats;
  float factor = -1;
  float step = -1;
};

// The 4-bit value of a plane at one position: two halves of each block of 128, or of
// the last block of 64, share their bytes.
unsigned nibble(const std::vector<std::uint8_t>& plane, std::size_t at) {
  const std::size_t block = at / 128 * 128;
  const std::size_t half = std::min<std::size_t>(128, 2 * plane.size() - block) / 2;
  const std::size_t within = at - block;
  const unsigned byte = plane[block / 2 + within % half];
  return within < half ? byte & 15U : byte >> 4U;
}

unsigned code_at(const Planes& planes, std::size_t at) {
  return nibble(planes.high, at) << 12U | static_cast<unsigned>(planes.low[at]) << 4U |
         nibble(planes.rest, at);
}

// The rotated vector (width,) of unit vector `number`, zero beyond dim.
Vector rotated(const VectorSpace& space, const Vector& unit) {
  Vector x(space.width());
  std::copy(unit.begin(), unit.end(), x.begin());
  space.rotation().apply(x.data());
  return x;
}

// value * 32512 / max|x| in float64: where the code of a value lies before rounding.
std::vector<double> scaled(const Vector& x) {
  double largest = 0;
  for (const float value : x) {
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  std::vector<double> out;
  for (const float value : x) out.push_back(value * (kLargest / largest));
  return out;
}

// float32 arithmetic moves a number of this size by less than this.
constexpr double kSlack = 0.01;

}  // namespace

TEST_CASE("the planes of a row together are its rounded 16-bit values") {
  for (const std::size_t dim : kDims) {
    CAPTURE(dim);
    const VectorSpace space(dim, Codec::kInt4Plus8Plus4, false);
    const Vector x = rotated(space, unit_vector(dim, dim));
    const std::vector<double> exact = scaled(x);
    std::vector<std::uint16_t> codes(space.width());
    Planes planes(space);
    make_planes(space, x.data(), codes.data(), planes.row(true, true));
    double most = 0;
    for (std::size_t i = 0; i < space.width(); ++i) {
      CAPTURE(i);
      REQUIRE(code_at(planes, i) == codes[i]);
      const double code = codes[i] - kMiddle;
      REQUIRE(std::fabs(code - exact[i]) <= 0.5 + kSlack);
      most = std::max(most, std::fabs(code));
      if (i >= dim) REQUIRE(codes[i] == kMiddle);
    }
    CHECK(most == kLargest);
  }
}

TEST_CASE("planes that are not stored change nothing in those that are") {
  constexpr std::size_t kDim = 200;
  const VectorSpace space(kDim, Codec::kInt4Plus8Plus4, false);
  const Vector x = rotated(space, unit_vector(3, kDim));
  std::vector<std::uint16_t> codes(space.width());
  Planes whole(space);
  make_planes(space, x.data(), codes.data(), whole.row(true, true));
  Planes some(space);
  make_planes(space, x.data(), codes.data(), some.row(true, false));
  CHECK(some.high == whole.high);
  CHECK(some.low == whole.low);
  Planes one(space);
  make_planes(space, x.data(), codes.data(), one.row(false, false));
  CHECK(one.high == whole.high);
}

TEST_CASE("codes do not depend on the scale of a vector") {
  constexpr std::size_t kDim = 384;
  const VectorSpace space(kDim, Codec::kInt4Plus8Plus4, false);
  const Vector x = rotated(space, unit_vector(5, kDim));
  std::vector<std::uint16_t> codes(space.width());
  Planes planes(space);
  make_planes(space, x.data(), codes.data(), planes.row(true, true));
  // Powers of two change no digit. Above 2^-100, 32512 / max|x| is a float.
  for (const int power : {-100, -40, -1, 1, 40, 100}) {
    CAPTURE(power);
    Vector other = x;
    for (float& value : other) value = std::ldexp(value, power);
    std::vector<std::uint16_t> again(space.width());
    Planes others(space);
    make_planes(space, other.data(), again.data(), others.row(true, true));
    CHECK(again == codes);
    CHECK(others.high == planes.high);
    CHECK(others.low == planes.low);
    CHECK(others.rest == planes.rest);
  }
}

TEST_CASE("one value that is far above all others leaves the others in the middle") {
  constexpr std::size_t kDim = 100;
  const VectorSpace space(kDim, Codec::kInt4Plus8Plus4, false);
  for (const int sign : {-1, 1}) {
    Vector x(space.width(), 0.0F);
    for (std::size_t i = 0; i < kDim; ++i) x[i] = std::numeric_limits<float>::min();
    x[7] = static_cast<float>(sign);
    std::vector<std::uint16_t> codes(space.width());
    Planes planes(space);
    make_planes(space, x.data(), codes.data(), planes.row(true, true));
    for (std::size_t i = 0; i < space.width(); ++i) {
      CAPTURE(i);
      CHECK(code_at(planes, i) == kMiddle + (i == 7 ? sign * kLargest : 0.0));
    }
  }
}

TEST_CASE("a vector of any length has the codes of its direction, a zero vector none") {
  constexpr std::size_t kDim = 200;
  const VectorSpace space(kDim, Codec::kInt4Plus8Plus4, false);
  RowEncoder encoder;
  encoder.prepare(space);
  const Vector unit = unit_vector(9, kDim);
  Planes expected(space);
  encoder.encode(space, unit, expected.row(true, true));
  for (const float scale : {1e-28F, 1e-20F, 1.0F, 1e20F, 1e38F}) {
    CAPTURE(scale);
    Vector given = unit;
    for (float& value : given) value *= scale;
    Vector out(kDim);
    REQUIRE(normalise(given, out) == VectorFault::kNone);
    Planes planes(space);
    encoder.encode(space, out, planes.row(true, true));
    for (std::size_t i = 0; i < space.width(); ++i) {
      CAPTURE(i);
      // Norm 1 again, but for the last digit of a float32.
      REQUIRE(std::fabs(static_cast<double>(code_at(planes, i)) -
                        code_at(expected, i)) <= 1);
    }
    CHECK(planes.step == doctest::Approx(expected.step).epsilon(1e-5));
    CHECK(planes.factor == doctest::Approx(expected.factor).epsilon(1e-3));
  }
  Vector out = unit;
  CHECK(normalise(Vector(kDim, 0.0F), out) == VectorFault::kZero);
  CHECK(out == unit);
}

// Decodes in float64 what each codec stores; the bound is half a step of the code.
TEST_CASE("factor and step give the cosine of a row within the step of its codes") {
  struct Stored {
    Codec codec;
    bool low;
    bool rest;
    double step;  // of the finest code that is stored, in 16-bit codes
  };
  for (const Stored stored : {Stored{Codec::kInt4, false, false, 4096},
                              Stored{Codec::kInt4Plus8, true, false, 16},
                              Stored{Codec::kInt4Plus8Plus4, true, true, 1}}) {
    for (const std::size_t dim : kDims) {
      CAPTURE(dim);
      CAPTURE(stored.step);
      const VectorSpace space(dim, stored.codec, false);
      RowEncoder encoder;
      encoder.prepare(space);
      const Vector unit = unit_vector(dim + 1, dim);
      const Vector x = rotated(space, unit);
      double largest = 0;
      double norm = 0;  // squared
      for (std::size_t i = 0; i < dim; ++i) {
        largest = std::max(largest, std::fabs(static_cast<double>(x[i])));
        norm += static_cast<double>(x[i]) * x[i];
      }
      Planes planes(space);
      encoder.encode(space, unit, planes.row(stored.low, stored.rest));
      CHECK(planes.floats == unit);
      if (!stored.low) CHECK(planes.step == 0.0F);

      std::vector<double> decoded;
      for (std::size_t i = 0; i < dim; ++i) {
        if (!stored.low) {
          decoded.push_back(planes.factor * (nibble(planes.high, i) - 7.5));
        } else {
          const double rest = stored.rest ? nibble(planes.rest, i) : 7.5;
          const double top = nibble(planes.high, i) * 4096.0 + planes.low[i] * 16.0;
          decoded.push_back(planes.step * (top + rest - kMiddle));
        }
      }
      // The factor is chosen so that the row's product with itself has no error.
      double own = 0;
      for (std::size_t i = 0; i < dim; ++i) own += decoded[i] * x[i];
      CHECK(own == doctest::Approx(norm).epsilon(1e-6));

      // One factor for all values: what it differs from the plain scale by is bounded
      // by the rounding of the values, weighed by themselves.
      const double unit_step = largest / kLargest;
      const double rounding = (stored.step / 2 + 1) * unit_step;
      double sum = 0;
      for (std::size_t i = 0; i < dim; ++i) sum += std::fabs(x[i]);
      const double stretch = rounding * sum / norm;
      REQUIRE(stretch < 1);
      for (std::size_t i = 0; i < dim; ++i) {
        CAPTURE(i);
        // (x + e) / (1 + s) with |e| <= rounding and |s| <= stretch.
        const double bound =
            (rounding + stretch * std::fabs(x[i])) / (1 - stretch) + 1e-6;
        REQUIRE(std::fabs(decoded[i] - x[i]) <= bound);
      }
    }
  }
}

}  // namespace vecall::testing

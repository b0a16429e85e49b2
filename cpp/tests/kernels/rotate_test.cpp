// The kernels of floats: the product, which may differ in the last bits, and the
// rotation, which may not.

#include <doctest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

std::vector<std::size_t> dims() {
  std::vector<std::size_t> all;
  for (std::size_t dim = 1; dim <= 70; ++dim) all.push_back(dim);
  all.insert(all.end(),
             {100, 127, 128, 129, 255, 256, 257, 384, 511, 512, 768, 1000, 1024, 1536});
  return all;
}

std::vector<float> make_floats(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (auto& value : values) value = random.normal();
  return values;
}

// One rotation, as rotation_body.hpp describes its signs.
struct Turn {
  std::size_t dim;
  std::size_t block;   // values that one transform takes
  std::size_t rounds;  // one row of signs each
  std::vector<float> signs;

  // next_bit() chooses one sign.
  template <class NextBit>
  Turn(std::size_t size, NextBit next_bit)
      : dim(size), block(std::bit_floor(size)), rounds(block == size ? 2 : 4) {
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
    for (std::size_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < dim; ++i) {
        const float sign = next_bit() ? -1.0F : 1.0F;
        const bool inside = i >= begin(round) && i < begin(round) + block;
        signs.push_back(inside ? sign * scale : sign);
      }
    }
  }
  // Where the transform of one round begins.
  [[nodiscard]] std::size_t begin(std::size_t round) const {
    return round % 2 == 0 ? 0 : dim - block;
  }
};

// The same in double precision by the matrix itself: entry (i, j) of a Walsh-Hadamard
// matrix is -1 where i and j share an odd number of bits.
std::vector<double> reference_rotate(const std::vector<float>& from, const Turn& turn) {
  std::vector<double> x(from.begin(), from.end());
  for (std::size_t round = 0; round < turn.rounds; ++round) {
    for (std::size_t i = 0; i < turn.dim; ++i) {
      x[i] *= static_cast<double>(turn.signs[round * turn.dim + i]);
    }
    const std::size_t begin = turn.begin(round);
    std::vector<double> y = x;
    for (std::size_t i = 0; i < turn.block; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < turn.block; ++j) {
        sum += std::popcount(i & j) % 2 == 0 ? x[begin + j] : -x[begin + j];
      }
      y[begin + i] = sum;
    }
    x = y;
    if (turn.rounds == 4 && round < 3) {
      const std::size_t half = turn.dim / 2;
      for (std::size_t i = 0; i < half; ++i) {
        x[i] = (y[i] + y[half + i]) / std::sqrt(2.0);
        x[half + i] = (y[i] - y[half + i]) / std::sqrt(2.0);
      }
    }
  }
  return x;
}

template <class Values>
double norm(const Values& values) {
  double sum = 0;
  for (const auto value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("dot is as close to the exact product as promised") {
  Random random(7);
  for (const std::size_t dim : dims()) {
    CAPTURE(dim);
    for (const Place place : kPlaces) {
      const Guarded a(make_floats(dim, random), place);
      const Guarded b(make_floats(dim, random), place);
      double exact = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        const double product =
            static_cast<double>(a.all()[i]) * static_cast<double>(b.all()[i]);
        exact += product;
        magnitude += std::abs(product);
      }
      const double allowed = static_cast<double>(dim) * 0x1p-24 * magnitude;
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        const double got = static_cast<double>(tier->dot(a.data(), b.data(), dim));
        CHECK(std::abs(got - exact) <= allowed);
      }
    }
  }
}

TEST_CASE("dot and rotate of nothing") {
  const Guarded<float> none(0);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    CHECK(tier->dot(none.data(), none.data(), 0) == 0.0F);
    tier->rotate(none.data(), 0, none.data());
  }
}

TEST_CASE("rotate is the rotation that its header describes, to the bit on all tiers") {
  constexpr double kTolerance = 1e-5;
  Random random(8);
  for (const std::size_t dim : dims()) {
    CAPTURE(dim);
    const Turn turn(dim, [&] { return random.between(0, 1) == 0; });
    const std::vector<float> from = make_floats(dim, random);
    const std::vector<double> expected = reference_rotate(from, turn);
    const Guarded scalar(from);
    kernels::table_of("scalar").rotate(scalar.data(), dim, turn.signs.data());
    for (const Place place : kPlaces) {
      const Guarded signs(turn.signs, place);
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        const Guarded x(from, place);
        tier->rotate(x.data(), dim, signs.data());
        CHECK(first_difference(x.all(), scalar.all()) == kSame);
        const double before = norm(from);
        CHECK(std::abs(norm(x.all()) - before) <= kTolerance * before);
        double distance = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          const double off = static_cast<double>(x.all()[i]) - expected[i];
          distance += off * off;
        }
        CHECK(std::sqrt(distance) <= kTolerance * before);
      }
    }
  }
}

TEST_CASE("rotate keeps the product of two vectors") {
  constexpr double kTolerance = 1e-5;
  Random random(9);
  for (const std::size_t dim : dims()) {
    CAPTURE(dim);
    const Turn turn(dim, [&] { return random.between(0, 1) == 0; });
    const auto a = make_floats(dim, random);
    const auto b = make_floats(dim, random);
    for (const auto* tier : tiers()) {
      CAPTURE(name_of(*tier));
      auto x = a;
      auto y = b;
      tier->rotate(x.data(), dim, turn.signs.data());
      tier->rotate(y.data(), dim, turn.signs.data());
      double before = 0;
      double after = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        before += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        after += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      }
      CHECK(std::abs(after - before) <= kTolerance * norm(a) * norm(b));
    }
  }
}

TEST_CASE("rotate gives the same bits on every machine") {
  // Snapshots move between machines. From whole numbers alone, as distributions of the
  // standard library may differ.
  const std::pair<std::size_t, std::uint32_t> checksums[] = {{70, 0xD257F1F3},
                                                             {256, 0xFCCB4AB3},
                                                             {384, 0x5E1718A4},
                                                             {1000, 0xF8115266},
                                                             {1536, 0xA55C5BF0}};
  for (const auto& [dim, expected] : checksums) {
    CAPTURE(dim);
    std::mt19937_64 engine(10);
    const Turn turn(dim, [&] { return engine() % 2 == 0; });
    std::vector<float> from(dim);
    for (auto& value : from) {
      value = static_cast<float>(static_cast<std::int64_t>(engine()) >> 40) * 0x1p-23F;
    }
    for (const auto* tier : tiers()) {
      CAPTURE(name_of(*tier));
      auto x = from;
      tier->rotate(x.data(), dim, turn.signs.data());
      std::vector<std::uint8_t> bytes(dim * sizeof(float));
      std::memcpy(bytes.data(), x.data(), bytes.size());
      CHECK(tier->crc32c(0, bytes.data(), bytes.size()) == expected);
    }
  }
}

}  // namespace vecall::testing

// The steps from a query to its integers: each tier against the scalar one bit for bit,
// and against plain loops over single values.

#include <doctest.h>

#include <cmath>
#include <cstdlib>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

using kernels::KernelTable;

// Every remainder of the vectors' lanes, and lengths of real vectors.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> all;
  for (std::size_t count = 0; count <= 70; ++count) all.push_back(count);
  all.insert(all.end(), {100, 383, 384, 385, 768, 1000, 1536, 4096, 65535, 65536});
  return all;
}

enum class Values : std::uint8_t {
  kNormal,
  kZero,       // a query of nothing
  kNegative0,  // and one of its other sign
  kOneHuge,    // beside it all else rounds to nothing
  kTiny,       // below what the scale allows for
  kHighest,    // the sums that reach farthest
  kLowest,
  kSigns,
  kHalves  // near the middle between two steps
};
constexpr Values kAllValues[] = {Values::kNormal,  Values::kZero,  Values::kNegative0,
                                 Values::kOneHuge, Values::kTiny,  Values::kHighest,
                                 Values::kLowest,  Values::kSigns, Values::kHalves};

std::vector<float> make_values(Values kind, std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = static_cast<float>(random.between(-127, 126));
    switch (kind) {
      case Values::kNormal:
      case Values::kOneHuge:
        values[i] = random.normal();
        break;
      case Values::kZero:
        values[i] = 0.0F;
        break;
      case Values::kNegative0:
        values[i] = -0.0F;
        break;
      case Values::kTiny:
        values[i] = random.normal() * 1e-38F;
        break;
      case Values::kHighest:
        values[i] = 0.7F;
        break;
      case Values::kLowest:
        values[i] = -0.7F;
        break;
      case Values::kSigns:
        values[i] = i % 2 == 0 ? 0.7F : -0.7F;
        break;
      case Values::kHalves:
        values[i] = i == 0 ? 127.0F : whole + 0.5F;
        break;
    }
  }
  if (kind == Values::kOneHuge && count > 0) {
    values[count / 2] = random.between(0, 1) == 0 ? 3e38F : -3e38F;
  }
  return values;
}

// What quantise() must give, from its description.
struct Quantised {
  std::vector<std::int8_t> q8;
  std::vector<std::int16_t> q16;
  float largest = 1e-30F;
  std::int64_t sum8 = 0;
  std::int64_t sum16 = 0;

  explicit Quantised(const std::vector<float>& x) {
    for (const float value : x) largest = std::max(largest, std::abs(value));
    const float scale8 = 127.0F / largest;
    const float scale16 = 32'512.0F / largest;
    for (const float value : x) {
      const float shifted8 = value * scale8 + 128.5F;
      const float shifted16 = value * scale16 + 32'768.5F;
      const int eight = static_cast<int>(shifted8) - 128;
      const int sixteen = static_cast<int>(shifted16) - 32'768;
      q8.push_back(static_cast<std::int8_t>(eight));
      q16.push_back(static_cast<std::int16_t>(sixteen));
      sum8 += eight;
      sum16 += sixteen;
    }
  }
};

const KernelTable& scalar() {
  return kernels::table_of("scalar");
}

void check_quantise(const KernelTable& tier, const std::vector<float>& x, Place place) {
  const Quantised expected(x);
  const Guarded<float> values(x, place);
  const Guarded<std::int8_t> q8(x.size(), place);
  const Guarded<std::int16_t> q16(x.size(), place);
  const auto query = tier.quantise(values.data(), x.size(), q8.data(), q16.data());
  CHECK(std::bit_cast<std::uint32_t>(query.largest) ==
        std::bit_cast<std::uint32_t>(expected.largest));
  CHECK(query.sum8 == expected.sum8);
  CHECK(query.sum16 == expected.sum16);
  double along8 = 0;
  double along16 = 0;
  double size8 = 0;
  double size16 = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    along8 += static_cast<double>(x[i]) * expected.q8[i];
    along16 += static_cast<double>(x[i]) * expected.q16[i];
    size8 += std::abs(static_cast<double>(x[i]) * expected.q8[i]);
    size16 += std::abs(static_cast<double>(x[i]) * expected.q16[i]);
  }
  const double relative = static_cast<double>(x.size()) * 0x1p-52;
  CHECK(std::abs(query.along8 - along8) <= relative * size8);
  CHECK(std::abs(query.along16 - along16) <= relative * size16);
  const auto same = scalar().quantise(values.data(), x.size(), q8.data(), q16.data());
  CHECK(std::bit_cast<std::uint64_t>(query.along8) ==
        std::bit_cast<std::uint64_t>(same.along8));
  CHECK(std::bit_cast<std::uint64_t>(query.along16) ==
        std::bit_cast<std::uint64_t>(same.along16));
  CHECK(std::equal(q8.all().begin(), q8.all().end(), expected.q8.begin()));
  CHECK(std::equal(q16.all().begin(), q16.all().end(), expected.q16.begin()));
  // What sum_high and sum_nibbles require, and -128 has no opposite.
  CHECK(std::all_of(q8.all().begin(), q8.all().end(),
                    [](int q) { return std::abs(q) <= 127; }));
  CHECK(std::all_of(q16.all().begin(), q16.all().end(),
                    [](int q) { return std::abs(q) <= 32'512; }));
}

}  // namespace

TEST_CASE("squares are summed in double, in one order by all tiers") {
  Random random(11);
  for (const std::size_t count : counts()) {
    CAPTURE(count);
    for (const Values kind : kAllValues) {
      CAPTURE(static_cast<int>(kind));
      const auto x = make_values(kind, count, random);
      long double exact = 0;
      for (const float value : x) exact += static_cast<long double>(value) * value;
      const double same = scalar().squares(x.data(), count);
      CHECK(std::abs(static_cast<double>(same - exact)) <=
            static_cast<double>(count) * 0x1p-53 * static_cast<double>(exact));
      for (const Place place : kPlaces) {
        const Guarded<float> values(x, place);
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          CHECK(std::bit_cast<std::uint64_t>(tier->squares(values.data(), count)) ==
                std::bit_cast<std::uint64_t>(same));
        }
      }
    }
  }
}

TEST_CASE("scale rounds each product once, beside its input and over it") {
  Random random(12);
  for (const std::size_t count : counts()) {
    CAPTURE(count);
    for (const Values kind : kAllValues) {
      CAPTURE(static_cast<int>(kind));
      const auto x = make_values(kind, count, random);
      for (const double factor : {1.0, 1.0 / 3.0, -0.75, 1e-300, 1e10, 0.0}) {
        CAPTURE(factor);
        std::vector<float> expected;
        for (const float value : x) {
          expected.push_back(static_cast<float>(static_cast<double>(value) * factor));
        }
        for (const Place place : kPlaces) {
          for (const auto* tier : tiers()) {
            CAPTURE(name_of(*tier));
            const Guarded<float> values(x, place);
            const Guarded<float> out(count, place);
            tier->scale(values.data(), count, factor, out.data());
            CHECK(first_difference(out.all(), expected) == kSame);
            CHECK(first_difference(values.all(), x) == kSame);
            tier->scale(values.data(), count, factor, values.data());
            CHECK(first_difference(values.all(), expected) == kSame);
          }
        }
        if (count > 2000) break;  // one factor says it all of a long one
      }
    }
  }
}

TEST_CASE("quantise rounds to the nearest step of the largest value") {
  Random random(13);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    for (const Values kind : kAllValues) {
      CAPTURE(static_cast<int>(kind));
      const auto x = make_values(kind, width, random);
      for (const Place place : kPlaces) {
        CAPTURE(place.slack);
        CAPTURE(place.at_begin);
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          check_quantise(*tier, x, place);
        }
      }
    }
  }
}

TEST_CASE("quantise finds the largest value wherever it stands") {
  Random random(14);
  for (std::size_t at = 0; at < 192; ++at) {
    CAPTURE(at);
    auto x = make_values(Values::kNormal, 192, random);
    x[at] = at % 2 == 0 ? 9.5F : -9.5F;
    for (const auto* tier : tiers()) {
      CAPTURE(name_of(*tier));
      check_quantise(*tier, x, Place{});
    }
  }
}

TEST_CASE("the integers of a query are near its values") {
  // From the meaning of the numbers, not from the formula.
  Random random(15);
  const auto x = make_values(Values::kNormal, 384, random);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    std::vector<std::int8_t> q8(x.size());
    std::vector<std::int16_t> q16(x.size());
    const auto query = tier->quantise(x.data(), x.size(), q8.data(), q16.data());
    const double largest = query.largest;
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(std::abs(q8[i] * largest / 127 - x[i]) <= 0.501 * largest / 127);
      CHECK(std::abs(q16[i] * largest / 32'512 - x[i]) <= 0.51 * largest / 32'512);
    }
  }
}

TEST_CASE("centre turns every nibble of a plane into a value of a query") {
  Random random(16);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    // -1 stands for random bytes; the others reach for the ends and the overflows.
    for (const int fill : {-1, 0x00, 0xFF, 0xF0, 0x0F}) {
      CAPTURE(fill);
      std::vector<std::uint8_t> plane(width / 2);
      for (auto& byte : plane) {
        byte = static_cast<std::uint8_t>(fill < 0 ? random.between(0, 255) : fill);
      }
      std::vector<std::int8_t> expected(width);
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const std::int64_t value = 16 * nibble_at(plane.data(), i, width) - 120;
        expected[i] = static_cast<std::int8_t>(value);
        sum += value;
      }
      for (const Place place : kPlaces) {
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          const Guarded<std::uint8_t> nibbles(plane, place);
          const Guarded<std::int8_t> out(width, place);
          CHECK(tier->centre(nibbles.data(), width, out.data()) == sum);
          CHECK(std::equal(out.all().begin(), out.all().end(), expected.begin()));
        }
      }
    }
  }
}

}  // namespace vecall::testing

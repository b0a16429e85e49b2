// Selection by a threshold, and checksums.

#include <doctest.h>

#include <limits>
#include <string_view>
#include <utility>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Every count that ends somewhere in a register, and some whole and long ones.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> all;
  for (std::size_t count = 0; count <= 200; ++count) all.push_back(count);
  all.insert(all.end(), {255, 256, 257, 1000, 4096});
  return all;
}

std::vector<float> make_values(std::size_t count, Random& random) {
  constexpr float kSpecial[] = {0.0F, -0.0F, 0.5F, kInfinity, -kInfinity, kNan};
  std::vector<float> values(count);
  for (auto& value : values) {
    value = random.normal();
    if (random.between(0, 3) == 0) {
      value = kSpecial[static_cast<std::size_t>(random.between(0, 5))];
    }
  }
  return values;
}

// Bit by bit from the polynomial, x^32 the highest.
std::uint32_t reference_crc32c(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t remainder = 0xFFFFFFFF;
  for (const std::uint8_t byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = (static_cast<std::uint32_t>(byte) >> bit) & 1;
      const bool carry = ((remainder >> 31) ^ in) != 0;
      remainder = (remainder << 1) ^ (carry ? 0x1EDC6F41 : 0);
    }
  }
  std::uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) {
    reflected |= ((remainder >> bit) & 1) << (31 - bit);
  }
  return ~reflected;
}

std::vector<std::uint8_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

}  // namespace

TEST_CASE("at_least finds the same positions as a loop") {
  Random random(5);
  for (const std::size_t count : counts()) {
    CAPTURE(count);
    for (const Place place : kPlaces) {
      const Guarded values(make_values(count, random), place);
      for (const float threshold :
           {-kInfinity, -1.0F, 0.0F, -0.0F, 0.5F, 2.5F, kInfinity, kNan}) {
        CAPTURE(threshold);
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < count; ++i) {
          if (values.all()[i] >= threshold) {
            expected.push_back(static_cast<std::uint32_t>(i));
          }
        }
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          const Guarded<std::uint32_t> positions(count, place);
          const std::size_t found =
              tier->at_least(values.data(), count, threshold, positions.data());
          REQUIRE(found == expected.size());
          CHECK(std::equal(expected.begin(), expected.end(), positions.data()));
        }
      }
    }
  }
}

TEST_CASE("at_least with all values or none of them") {
  for (const std::size_t count : counts()) {
    CAPTURE(count);
    const Guarded values(std::vector<float>(count, 1.0F));
    for (const auto* tier : tiers()) {
      CAPTURE(name_of(*tier));
      const Guarded<std::uint32_t> positions(count);
      CHECK(tier->at_least(values.data(), count, 1.5F, positions.data()) == 0);
      REQUIRE(tier->at_least(values.data(), count, 1.0F, positions.data()) == count);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (positions.all()[i] != i) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("crc32c of published examples") {
  std::vector<std::uint8_t> ascending(32);
  for (std::uint8_t i = 0; i < 32; ++i) ascending[i] = i;
  const std::vector<std::uint8_t> descending(ascending.rbegin(), ascending.rend());
  const std::pair<std::vector<std::uint8_t>, std::uint32_t> examples[] = {
      {{}, 0x00000000},
      {bytes_of("123456789"), 0xE3069283},
      {std::vector<std::uint8_t>(32, 0x00), 0x8A9136AA},  // RFC 3720, B.4
      {std::vector<std::uint8_t>(32, 0xFF), 0x62A8AB43},
      {ascending, 0x46DD794E},
      {descending, 0x113FDB5C},
  };
  for (const auto& [bytes, expected] : examples) {
    CHECK(reference_crc32c(bytes) == expected);
    for (const auto* tier : tiers()) {
      CAPTURE(name_of(*tier));
      CHECK(tier->crc32c(0, bytes.data(), bytes.size()) == expected);
    }
  }
}

TEST_CASE("crc32c of every length, whole and in two parts") {
  Random random(6);
  for (const std::size_t count : counts()) {
    CAPTURE(count);
    std::vector<std::uint8_t> bytes(count);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.between(0, 255));
    const std::uint32_t expected = reference_crc32c(bytes);
    for (const Place place :
         {Place{}, {.slack = 1}, {.slack = 5}, {.at_begin = true}}) {
      const Guarded guarded(bytes, place);
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        CHECK(tier->crc32c(0, guarded.data(), count) == expected);
        const std::size_t split = count == 0 ? 0 : count * 3 / 7;
        const std::uint32_t first = tier->crc32c(0, guarded.data(), split);
        CHECK(tier->crc32c(first, guarded.data() + split, count - split) == expected);
      }
    }
  }
}

}  // namespace vecall::testing

// The kernels of signs, each tier against sums over single bits.

#include <doctest.h>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kGroupRows = 64;
constexpr std::size_t kGroups = 3;
constexpr std::size_t kQueries = 6;
constexpr std::size_t kWidths[] = {64, 128, 192, 384, 768, 1024, 4096};

// Tables of any values that are allowed, or of the largest ones.
std::vector<std::uint8_t> make_tables(std::size_t width, bool largest, Random& random) {
  std::vector<std::uint8_t> tables(width / 4 * 16);
  for (auto& entry : tables) {
    entry = static_cast<std::uint8_t>(largest ? 63 : random.between(0, 63));
  }
  return tables;
}

// What the description in kernel_table.hpp says of row `row` of all groups.
std::uint32_t sum_of(const std::vector<std::uint8_t>& tables, const std::uint8_t* signs,
                     std::size_t row, std::size_t width) {
  const std::uint8_t* group = signs + row / kGroupRows * kGroupRows * (width / 8);
  std::uint32_t sum = 0;
  for (std::size_t byte = 0; byte < width / 8; ++byte) {
    const std::uint8_t bits = group[byte * kGroupRows + row % kGroupRows];
    sum += tables[(2 * byte) * 16 + bits % 16];
    sum += tables[(2 * byte + 1) * 16 + bits / 16];
  }
  return sum;
}

void check_sums(const kernels::KernelTable& tier, std::size_t width, bool largest,
                Place place) {
  Random random(width);
  const std::size_t rows = kGroups * kGroupRows;
  const Guarded<std::uint8_t> signs(rows * (width / 8), place);
  for (auto& byte : signs.all()) {
    byte = static_cast<std::uint8_t>(random.between(0, 255));
  }
  std::vector<std::vector<std::uint8_t>> tables;
  std::vector<std::uint32_t> expected;
  for (std::size_t i = 0; i < kQueries; ++i) {
    tables.push_back(make_tables(width, largest, random));
    for (std::size_t row = 0; row < rows; ++row) {
      expected.push_back(sum_of(tables[i], signs.data(), row, width) % 65'536);
    }
  }
  for (std::size_t count = 1; count <= kQueries; ++count) {
    std::vector<kernels::SignQuery> queries(count);
    for (std::size_t i = 0; i < count; ++i) {
      queries[i] = {.tables = tables[i].data(), .width = width};
    }
    const Guarded<std::uint16_t> sums(count * rows, place);
    tier.sign_sums(queries.data(), count, signs.data(), kGroups, sums.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count * rows; ++i) {
      wrong += sums.all()[i] != expected[i] ? 1 : 0;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("sums of signs are those of single bits, by any number of queries") {
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    for (const std::size_t width : kWidths) {
      CAPTURE(width);
      for (const Place place : kPlaces) {
        check_sums(*tier, width, false, place);
        check_sums(*tier, width, true, place);
      }
    }
  }
}

TEST_CASE("rows that reach a threshold by their sums are found in order") {
  Random random(4);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    for (const std::size_t count : {0U, 64U, 192U, 256U, 320U, 1024U}) {
      CAPTURE(count);
      const Guarded<std::uint16_t> sums(count);
      const Guarded<float> factors(count);
      const kernels::SignQuery query{.bias = 40'000, .scale = 0.0021F};
      constexpr float kPlus = 3.7F;
      constexpr float kLeast = 0.4F;
      std::vector<std::uint32_t> expected;
      std::vector<float> expected_reaches;
      for (std::size_t i = 0; i < count; ++i) {
        sums.all()[i] = static_cast<std::uint16_t>(random.between(0, 65'535));
        factors.all()[i] = random.normal();
        const auto centred = static_cast<float>(2 * sums.all()[i] - query.bias);
        const float reach = factors.all()[i] * (query.scale * centred + kPlus);
        if (reach < kLeast) continue;
        expected.push_back(static_cast<std::uint32_t>(i));
        expected_reaches.push_back(reach);
      }
      const Guarded<std::uint32_t> positions(count);
      const Guarded<float> reaches(count);
      const std::size_t found =
          tier->sums_reaching(query, sums.data(), factors.data(), count, kPlus, kLeast,
                              positions.data(), reaches.data());
      REQUIRE(found == expected.size());
      CHECK(std::equal(expected.begin(), expected.end(), positions.data()));
      CHECK(first_difference(reaches.all().first(found), expected_reaches) == kSame);
    }
  }
}

}  // namespace vecall::testing

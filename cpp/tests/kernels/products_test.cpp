// Products of rows of 16-bit integers: each tier against a loop over single values.

#include <doctest.h>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

constexpr std::int64_t kMostRow = 2'047;
constexpr std::int64_t kMostQuery = 4'095;

enum class Fill : std::uint8_t { kRandom, kHighest, kLowest };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kHighest, Fill::kLowest};

std::vector<std::int16_t> values(std::size_t count, std::int64_t most, Fill fill,
                                 Random& random) {
  std::vector<std::int16_t> all(count);
  for (auto& value : all) {
    value = static_cast<std::int16_t>(fill == Fill::kRandom
                                          ? random.between(-most, most)
                                          : (fill == Fill::kHighest ? most : -most));
  }
  return all;
}

}  // namespace

TEST_CASE("sum_int16_rows sums the products of each row, up to the largest values") {
  Random random(21);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    const std::size_t count = width > 4096 ? 2 : 5;
    for (const Fill fill : kFills) {
      CAPTURE(static_cast<int>(fill));
      const auto rows = values(count * width, kMostRow, fill, random);
      const auto q = values(width, kMostQuery,
                            fill == Fill::kLowest ? Fill::kHighest : fill, random);
      std::vector<double> expected;
      for (std::size_t row = 0; row < count; ++row) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < width; ++i) sum += rows[row * width + i] * q[i];
        expected.push_back(static_cast<double>(sum));
      }
      for (const Place place : kPlaces) {
        const Guarded<std::int16_t> guarded_rows(rows, place);
        const Guarded<std::int16_t> guarded_q(q, place);
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          const Guarded<double> out(count, place);
          tier->sum_int16_rows(guarded_rows.data(), guarded_q.data(), width, count,
                               out.data());
          CHECK(std::equal(out.all().begin(), out.all().end(), expected.begin()));
        }
      }
    }
  }
}

TEST_CASE("sum_int16_rows of no rows writes nothing") {
  const Guarded<std::int16_t> rows(0);
  const Guarded<std::int16_t> q(64);
  const Guarded<double> out(0);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    tier->sum_int16_rows(rows.data(), q.data(), 64, 0, out.data());
  }
}

}  // namespace vecall::testing

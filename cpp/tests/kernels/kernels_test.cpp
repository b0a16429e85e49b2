// The kernels of codes, each tier against sums in 64-bit integers over single values.
// Equal to the reference in every bit means equal to each other.

#include <doctest.h>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

struct Range {
  std::int64_t least;
  std::int64_t most;
};

constexpr std::size_t kMostRows = 37;
constexpr Range kQ8 = {-128, 127};
constexpr Range kQ16 = {-32512, 32512};

// How codes and queries are filled; every kind but the first reaches for overflows.
enum class Fill : std::uint8_t { kRandom, kHighest, kLowest, kAlternating, kZero };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kHighest, Fill::kLowest,
                           Fill::kAlternating, Fill::kZero};

std::vector<std::uint8_t> make_bytes(Fill fill, std::size_t count, Random& random) {
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) {
    if (fill == Fill::kRandom) {
      byte = static_cast<std::uint8_t>(random.between(0, 255));
    } else {
      byte = fill == Fill::kZero ? 0 : 255;
    }
  }
  return bytes;
}

template <class T>
std::vector<T> make_query(Fill fill, std::size_t count, Range range, Random& random) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t value = range.most;
    if (fill == Fill::kRandom) value = random.between(range.least, range.most);
    if (fill == Fill::kLowest || (fill == Fill::kAlternating && i % 2 != 0)) {
      value = range.least;
    }
    values[i] = static_cast<T>(value);
  }
  return values;
}

// Rows, a query and what must come out.
struct Rows {
  Place place;
  std::size_t bytes;
  Guarded<std::uint8_t> codes;
  Guarded<std::int8_t> q8;
  Guarded<float> factors;
  Guarded<float> out;
  kernels::CodeQuery query;
  std::vector<float> expected;

  Rows(Fill fill, std::size_t width, Place where, Random& random)
      : place(where),
        bytes(width / 2),
        codes(make_bytes(fill, kMostRows * bytes, random), place),
        q8(make_query<std::int8_t>(fill, width, kQ8, random), place),
        factors(kMostRows, place),
        out(kMostRows, place),
        expected(kMostRows) {
    std::int64_t q_sum = 0;
    for (const auto q : q8.all()) q_sum += q;
    query = {.q8 = q8.data(),
             .width = width,
             .bias = static_cast<std::int32_t>(15 * q_sum),
             .scale = 0.00123F};
    for (auto& factor : factors.all()) factor = random.normal();
    for (std::size_t row = 0; row < kMostRows; ++row) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += nibble_at(codes.data() + row * bytes, i, width) * q8.all()[i];
      }
      const auto centred = static_cast<float>(2 * sum - 15 * q_sum);
      expected[row] = factors.all()[row] * (query.scale * centred);
    }
  }
};

void check_scan(const kernels::KernelTable& tier, const Rows& rows, std::size_t count) {
  CAPTURE(count);
  const auto out = rows.out.at_page(count);
  std::fill(out.begin(), out.end(), -1.0F);
  tier.scan(rows.query, rows.codes.at_page(count * rows.bytes).data(),
            rows.factors.at_page(count).data(), count, out.data());
  const std::span all(rows.expected);
  const std::span expected = rows.place.at_begin ? all.first(count) : all.last(count);
  CHECK(first_difference(out, expected) == kSame);
}

// Rows in no order, the one that lies at the page again and again.
void check_gather(const kernels::KernelTable& tier, const Rows& rows,
                  std::size_t count) {
  CAPTURE(count);
  const Guarded<const std::uint8_t*> pointers(count, rows.place);
  const Guarded<float> factors(count, rows.place);
  const Guarded<float> out(count, rows.place);
  const std::size_t at_page = rows.place.at_begin ? 0 : kMostRows - 1;
  std::vector<float> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row =
        (i + count) % 3 == 0 ? at_page : (i * 11 + count) % kMostRows;
    pointers.all()[i] = rows.codes.data() + row * rows.bytes;
    factors.all()[i] = rows.factors.all()[row];
    expected[i] = rows.expected[row];
  }
  tier.gather(rows.query, pointers.data(), factors.data(), count, out.data());
  CHECK(first_difference(out.all(), expected) == kSame);
}

// A row as planes, a query of 16 bits and what must come out.
struct Planes {
  std::size_t width;
  Guarded<std::uint8_t> nibbles;
  Guarded<std::uint8_t> low;
  Guarded<std::int16_t> q;
  std::int64_t expected_high = 0;
  std::int64_t expected_nibbles = 0;

  Planes(Fill fill, std::size_t values, Place place, Random& random)
      : width(values),
        nibbles(make_bytes(fill, width / 2, random), place),
        low(make_bytes(fill, width, random), place),
        q(make_query<std::int16_t>(fill, width, kQ16, random), place) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::int64_t nibble = nibble_at(nibbles.data(), i, width);
      expected_high += (nibble * 256 + low.all()[i]) * q.all()[i];
      expected_nibbles += nibble * q.all()[i];
    }
  }
};

// Every number of rows that end or begin at the page, by the kernel and value by value.
void check_sum_high_rows(const kernels::KernelTable& tier, Fill fill, std::size_t width,
                         Place place, Random& random) {
  constexpr std::size_t kRows = 9;
  const Guarded<std::uint8_t> high(make_bytes(fill, kRows * width / 2, random), place);
  const Guarded<std::uint8_t> low(make_bytes(fill, kRows * width, random), place);
  const Guarded<std::int16_t> q(make_query<std::int16_t>(fill, width, kQ16, random),
                                place);
  for (std::size_t count = 0; count <= kRows; ++count) {
    CAPTURE(count);
    const std::uint8_t* high_rows = high.at_page(count * width / 2).data();
    const std::uint8_t* low_rows = low.at_page(count * width).data();
    std::vector<double> expected;
    for (std::size_t row = 0; row < count; ++row) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const std::int64_t nibble = nibble_at(high_rows + row * width / 2, i, width);
        sum += (nibble * 256 + low_rows[row * width + i]) * q.all()[i];
      }
      expected.push_back(static_cast<double>(sum));
    }
    const Guarded<double> out(count, place);
    tier.sum_high_rows(high_rows, low_rows, q.data(), width, count, out.data());
    CHECK(std::equal(expected.begin(), expected.end(), out.data()));
  }
}

}  // namespace

TEST_CASE("scan and gather estimate every number of rows") {
  Random random(1);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    for (const Place place : kPlaces) {
      CAPTURE(place.slack);
      CAPTURE(place.at_begin);
      const Rows rows(Fill::kRandom, width, place, random);
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        for (std::size_t count = 0; count <= kMostRows; ++count) {
          check_scan(*tier, rows, count);
          check_gather(*tier, rows, count);
        }
      }
    }
  }
}

TEST_CASE("scan and gather take the most extreme codes and queries") {
  Random random(2);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    for (const Fill fill : kFills) {
      CAPTURE(static_cast<int>(fill));
      const Rows rows(fill, width, Place{}, random);
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        for (const std::size_t count : {1U, 4U, 7U}) {
          check_scan(*tier, rows, count);
          check_gather(*tier, rows, count);
        }
      }
    }
  }
}

TEST_CASE("estimates round in the order of the contract") {
  // The sums that are too long for a float, and factors at the ends of their range.
  Random random(3);
  const Rows rows(Fill::kHighest, 65536, Place{}, random);
  const std::vector<float> factors = {0.0F,  -0.0F,  1e-42F, -1e-38F,
                                      3e38F, -1.0F,  0.1F,   1.0F / 3.0F,
                                      1e-6F, 7e-20F, 123.0F, 1e30F};
  std::vector<float> expected;
  std::int64_t centred = 0;
  for (const auto q : rows.q8.all()) centred += (2 * 15 - 15) * q;
  for (const float factor : factors) {
    expected.push_back(factor * (rows.query.scale * static_cast<float>(centred)));
  }
  const std::span codes = rows.codes.at_page(factors.size() * rows.bytes);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    std::vector<float> out(factors.size());
    tier->scan(rows.query, codes.data(), factors.data(), out.size(), out.data());
    CHECK(first_difference(out, expected) == kSame);
  }
}

TEST_CASE("sum_high_rows is exact for every number of rows") {
  Random random(5);
  for (const std::size_t width : {64U, 128U, 192U, 384U, 448U, 4096U, 4160U}) {
    CAPTURE(width);
    for (const Fill fill : kFills) {
      CAPTURE(static_cast<int>(fill));
      for (const Place place : kPlaces) {
        CAPTURE(place.slack);
        CAPTURE(place.at_begin);
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          check_sum_high_rows(*tier, fill, width, place, random);
        }
      }
    }
  }
}

TEST_CASE("sum_high and sum_nibbles are exact") {
  Random random(4);
  for (const std::size_t width : code_widths()) {
    CAPTURE(width);
    for (const Fill fill : kFills) {
      CAPTURE(static_cast<int>(fill));
      for (const Place place : kPlaces) {
        CAPTURE(place.slack);
        CAPTURE(place.at_begin);
        const Planes row(fill, width, place, random);
        for (const auto* tier : tiers()) {
          CAPTURE(name_of(*tier));
          CHECK(tier->sum_high(row.nibbles.data(), row.low.data(), row.q.data(),
                               width) == row.expected_high);
          CHECK(tier->sum_nibbles(row.nibbles.data(), row.q.data(), width) ==
                row.expected_nibbles);
        }
      }
    }
  }
}

}  // namespace vecall::testing

// Signs beside the nibbles that they are of, and what they say of cosines beside
// float64.

#include "vectors/sign_codes.hpp"

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine_support.hpp"
#include "index/shortlist.hpp"
#include "kernels/dispatch.hpp"
#include "rows/row_space.hpp"
#include "vectors/encoded_rows.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDims[] = {128, 130, 384, 1000};
constexpr std::size_t kRows = kernels::kSignGroup;

// A vector at about this cosine to another.
Vector beside(const Vector& unit, double cosine, std::uint64_t number) {
  const Vector other = unit_vector(number, unit.size());
  Vector made;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    made.push_back(static_cast<float>(cosine * unit[i] +
                                      std::sqrt(1 - cosine * cosine) * other[i]));
  }
  return made;
}

// A query and a group of rows around it.
struct Group {
  RowSpace space;
  Vector unit;
  std::vector<Vector> rows;
  std::vector<std::uint8_t> signs;
  std::vector<float> factors;
  EncodedQuery query;
  EncodedSigns encoded;

  Group(std::size_t dim, double cosine, std::uint64_t seed)
      : space(dim, Codec::kInt4Plus8, false),
        unit(unit_vector(seed, dim)),
        signs(kRows * (space.width() / 8)) {
    for (std::size_t i = 0; i < kRows; ++i) {
      rows.push_back(beside(unit, cosine, 1'000 * seed + i + 1));
      const std::uint8_t wanted[] = {1};
      const EncodedRows one(space, rows.back(), wanted);
      const RowCodes codes = one.codes(0);
      put_signs(space, codes.high, i, signs.data());
      factors.push_back(sign_factor(space, codes.high, *codes.factor));
    }
    query.encode(space, unit);
    encoded.encode(space, query);
  }
};

double norm_of(const Vector& vector) {
  return std::sqrt(testing::cosine(vector, vector));
}

}  // namespace

TEST_CASE("a sign is set where the top bit of its nibble is") {
  for (const std::size_t dim : kDims) {
    CAPTURE(dim);
    const RowSpace space(dim, Codec::kInt4, false);
    const std::size_t width = space.width();
    std::vector<std::uint8_t> high(width / 2);
    for (std::size_t i = 0; i < high.size(); ++i) {
      high[i] = static_cast<std::uint8_t>(i * 151 + i / 7);
    }
    for (const std::size_t row : {0U, 1U, 63U}) {
      std::vector<std::uint8_t> group(kRows * (width / 8), 0xAA);
      put_signs(space, high.data(), row, group.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < group.size(); ++i) {
        if (i % kRows != row) {
          wrong += group[i] != 0xAA ? 1 : 0;
          continue;
        }
        const std::size_t from = i / kRows * 4;  // of the four bytes of the plane
        for (std::size_t j = 0; j < 4; ++j) {
          wrong += (group[i] >> j & 1) != (high[from + j] >> 3 & 1) ? 1 : 0;
          wrong += (group[i] >> (4 + j) & 1) != high[from + j] >> 7 ? 1 : 0;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("what signs say of a row is hardly ever below its cosine, and near to it") {
  for (const std::size_t dim : kDims) {
    for (const double about : {0.0, 0.3, 0.6, 0.9}) {
      CAPTURE(dim);
      CAPTURE(about);
      std::size_t below = 0;
      std::size_t all = 0;
      double squares = 0;
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Group group(dim, about, seed);
        std::vector<std::uint16_t> sums(kRows);
        const kernels::SignQuery& code = group.encoded.code();
        kernels::active().sign_sums(&code, 1, group.signs.data(), 1, sums.data());
        for (std::size_t i = 0; i < kRows; ++i) {
          const double truth =
              cosine(group.unit, group.rows[i]) / norm_of(group.rows[i]);
          EstimateError error;
          error.rounding = group.encoded.rounding();
          const auto reach = group.encoded.reach(error.sine(static_cast<float>(truth)));
          const double estimate =
              group.factors[i] * code.scale * (2.0 * sums[i] - code.bias);
          const double most = estimate + group.factors[i] * reach.plus - reach.minus;
          below += most < truth ? 1 : 0;
          squares += (estimate - truth) * (estimate - truth) / (most - estimate) /
                     (most - estimate);
          ++all;
        }
      }
      CHECK(below <= 1);  // of 1,280: four deviations leave out 1 of 30,000
      // The margin is four deviations, and no more than a third wider.
      const double deviations = 1 / std::sqrt(squares / static_cast<double>(all));
      CHECK(deviations > 3.7);
      CHECK(deviations < 5.3);
    }
  }
}

}  // namespace vecall::testing

// The kernels of the encoder: products of bytes against sums in 64-bit integers, the
// steps between them against double, and every tier against the others, bit by bit.

#include <doctest.h>

#include <cmath>

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

enum class Fill : std::uint8_t { kRandom, kHighest, kLowest };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kHighest, Fill::kLowest};

template <class T>
std::vector<T> numbers(std::size_t count, std::int64_t low, std::int64_t high,
                       Fill fill, Random& random) {
  std::vector<T> all(count);
  for (auto& value : all) {
    value = static_cast<T>(fill == Fill::kRandom    ? random.between(low, high)
                           : fill == Fill::kHighest ? high
                                                    : low);
  }
  return all;
}

// A byte of a matrix, from the description in kernel_table.hpp.
std::int64_t byte_at(const std::vector<std::int8_t>& bytes, std::size_t row,
                     std::size_t column, std::size_t depth) {
  const std::size_t group = column / 32;
  return bytes[group * 32 * depth + row / 4 * 4 * 32 + column % 32 * 4 + row % 4];
}

std::vector<float> normal(std::size_t count, float scale, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = scale * random.normal();
  return values;
}

}  // namespace

TEST_CASE("multiply gives the products of each row, up to the largest values") {
  Random random(31);
  struct Case {
    std::size_t depth;
    std::size_t columns;
    std::size_t rows;
    std::size_t stride;
  };
  const Case cases[] = {{4, 32, 1, 4},       {8, 32, 2, 8},       {12, 64, 3, 4},
                        {512, 32, 7, 256},   {768, 64, 8, 256},   {1280, 32, 23, 256},
                        {1280, 32, 5, 1280}, {2048, 32, 30, 2048}};
  for (const auto& [depth, columns, count, stride] : cases) {
    for (const bool are_bytes : {false, true}) {
      for (const Fill fill : kFills) {
        CAPTURE(depth);
        CAPTURE(count);
        CAPTURE(are_bytes);
        CAPTURE(static_cast<int>(fill));
        const std::int64_t most = are_bytes ? 127 : kernels::kMostValue;
        const auto bytes =
            numbers<std::int8_t>(depth * columns, -127, 127, fill, random);
        const auto values = numbers<std::int16_t>(
            (count - 1) * stride + depth, are_bytes ? 0 : -most, most, fill, random);
        std::vector<std::int32_t> column_sums(columns);
        for (std::size_t row = 0; row < depth; ++row) {
          for (std::size_t i = 0; i < columns; ++i) {
            column_sums[i] += static_cast<std::int32_t>(byte_at(bytes, row, i, depth));
          }
        }
        const auto steps = normal(columns, 1, random);
        const auto factors = normal(count, 1, random);
        std::vector<std::uint32_t> starts;
        std::vector<float> expected;
        for (std::size_t row = 0; row < count; ++row) {
          starts.push_back(static_cast<std::uint32_t>(row * stride));
          for (std::size_t i = 0; i < columns; ++i) {
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < depth; ++k) {
              sum += values[row * stride + k] * byte_at(bytes, k, i, depth);
            }
            expected.push_back(static_cast<float>(sum) * (factors[row] * steps[i]));
          }
        }
        for (const Place place : kPlaces) {
          const Guarded<std::int8_t> guarded_bytes(bytes, place);
          const Guarded<std::int32_t> guarded_sums(column_sums, place);
          const Guarded<float> guarded_steps(steps, place);
          const Guarded<std::int16_t> guarded_values(values, place);
          const Guarded<std::uint32_t> guarded_starts(starts, place);
          const Guarded<float> guarded_factors(factors, place);
          for (const auto* tier : tiers()) {
            CAPTURE(name_of(*tier));
            const Guarded<float> out(count * columns, place);
            tier->multiply({guarded_bytes.data(), guarded_sums.data(),
                            guarded_steps.data(), depth, columns},
                           {guarded_values.data(), guarded_starts.data(),
                            guarded_factors.data(), count, are_bytes},
                           out.data());
            CHECK(first_difference(out.all(), expected) == kSame);
          }
        }
      }
    }
  }
}

TEST_CASE("multiply of no rows writes nothing") {
  const Guarded<float> none(0);
  const std::vector<std::int8_t> bytes(4 * 32);
  const std::vector<std::int32_t> sums(32);
  const std::vector<float> steps(32);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    tier->multiply({bytes.data(), sums.data(), steps.data(), 4, 32}, {}, none.data());
  }
}

TEST_CASE("each tier takes the encoder's steps with the same bits") {
  Random random(32);
  constexpr float kEpsilon = 1e-12F;
  for (const std::size_t count : {16U, 256U, 1280U}) {
    for (const float scale : {1e-3F, 1.0F, 30.0F}) {
      CAPTURE(count);
      CAPTURE(scale);
      const auto x = normal(count, scale, random);
      const auto other = normal(count, scale, random);
      const auto bytes = numbers<std::uint8_t>(count, 0, 255, Fill::kRandom, random);
      // Each step's result, one tier after the other.
      std::vector<std::vector<float>> all;
      for (const auto* tier : tiers()) {
        CAPTURE(name_of(*tier));
        const kernels::EncoderSteps& steps = *tier->encoder;
        std::vector<float>& said = all.emplace_back();
        const auto keep = [&](std::span<const float> values) {
          said.insert(said.end(), values.begin(), values.end());
        };
        const Guarded<float> a(x);
        const Guarded<float> b(other);
        const Guarded<float> out(count);
        const Guarded<std::uint8_t> narrow(bytes);
        steps.unpack(narrow.data(), count, 0.3F, -7.0F, out.data());
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(out.data()[i] == doctest::Approx(bytes[i] * 0.3 - 7.0).epsilon(1e-5));
        }
        keep(out.all());

        double mean = 0;
        for (const float value : x) mean += value;
        mean /= static_cast<double>(count);
        double variance = 0;
        for (const float value : x) variance += std::pow(value - mean, 2);
        const double deviation = std::sqrt(variance / static_cast<double>(count));
        std::copy(x.begin(), x.end(), out.data());
        steps.normalise(out.data(), count, b.data(), a.data(), kEpsilon);
        for (std::size_t i = 0; i < count; ++i) {
          const double unit = (x[i] - mean) / deviation;
          CHECK(std::fabs(out.data()[i] - (unit * other[i] + x[i])) <
                1e-4 * (1 + std::fabs(other[i])));
        }
        keep(out.all());
        std::copy(other.begin(), other.end(), out.data());
        steps.add_normalised(a.data(), count, kEpsilon, out.data());
        for (std::size_t i = 0; i < count; ++i) {
          const double unit = (x[i] - mean) / deviation;
          CHECK(std::fabs(out.data()[i] - (other[i] + unit)) < 1e-4);
        }
        keep(out.all());

        steps.rectify(a.data(), b.data(), a.data(), count, out.data());
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(out.data()[i] == std::max(x[i] + other[i], 0.0F) + x[i]);
        }
        keep(out.all());
        steps.add(a.data(), count, out.data());
        keep(out.all());

        std::copy(x.begin(), x.end(), out.data());
        steps.tanh(out.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
          CHECK(std::fabs(out.data()[i] - std::tanh(double{x[i]})) < 3e-7);
        }
        keep(out.all());

        const float largest = steps.largest(a.data(), count);
        CHECK(largest ==
              std::fabs(*std::max_element(x.begin(), x.end(), [](float one, float two) {
                return std::fabs(one) < std::fabs(two);
              })));
        const float factor = static_cast<float>(kernels::kMostValue) / largest;
        const Guarded<std::int16_t> rounded(count);
        steps.round(a.data(), count, factor, rounded.data());
        for (std::size_t i = 0; i < count; ++i) {
          const double exact = double{x[i]} * factor;
          CHECK(std::fabs(rounded.data()[i] - exact) < 0.502);
          said.push_back(rounded.data()[i]);
        }
      }
      for (const auto& said : all) CHECK(first_difference(said, all.front()) == kSame);
    }
  }
}

TEST_CASE("a row of equal values is normalised to its bias") {
  const std::vector<float> same(256, 3.0F);
  const std::vector<float> bias(256, 0.25F);
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    auto row = same;
    tier->encoder->normalise(row.data(), row.size(), same.data(), bias.data(), 1e-12F);
    CHECK(row == bias);
  }
}

}  // namespace vecall::testing

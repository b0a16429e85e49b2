// A linear map against the product in double.

#include "vecall/linear_map.hpp"

#include <doctest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "engine_support.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

// Rows of norm 1 but for the last, which is zero.
std::vector<float> make_matrix(std::size_t rows, std::size_t columns) {
  std::vector<float> matrix;
  for (std::size_t i = 0; i + 1 < rows; ++i) {
    const Vector row = unit_vector(100 + i, columns);
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  matrix.resize(rows * columns);
  return matrix;
}

}  // namespace

TEST_CASE("a linear map gives the direction of the product") {
  for (const std::size_t columns : {1UL, 2UL, 63UL, 64UL, 65UL, 300UL, 512UL, 1000UL}) {
    CAPTURE(columns);
    constexpr std::size_t kRows = 130;
    const auto matrix = make_matrix(kRows, columns);
    const Vector vector = unit_vector(7, columns);
    std::vector<double> exact(kRows);
    double squares = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (std::size_t i = 0; i < columns; ++i) {
        exact[row] += static_cast<double>(matrix[row * columns + i]) * vector[i];
      }
      squares += exact[row] * exact[row];
    }
    const LinearMap map(matrix, columns);
    CHECK(map.rows() == kRows);
    CHECK(map.columns() == columns);
    std::vector<float> out(kRows);
    map.apply(vector, out);
    double error = 0;
    for (std::size_t row = 0; row < kRows; ++row) {
      error += std::pow(out[row] - exact[row] / std::sqrt(squares), 2);
    }
    CHECK(std::sqrt(error) < 2e-3);
    CHECK(out.back() == 0.0F);
  }
}

TEST_CASE("threads that share a linear map get the same bits") {
  constexpr std::size_t kDim = 100;
  const LinearMap map(make_matrix(kDim, kDim), kDim);
  const Vector vector = unit_vector(8, kDim);
  std::vector<float> expected(kDim);
  map.apply(vector, expected);
  std::vector<std::vector<float>> found(4, std::vector<float>(kDim));
  std::vector<std::thread> threads;
  for (auto& out : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) map.apply(vector, out);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& out : found) CHECK(out == expected);
}

TEST_CASE("a linear map refuses what has no product") {
  std::vector<float> matrix(6, 1.0F);
  const LinearMap map(matrix, 3);
  std::vector<float> out(2);
  matrix[4] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_AS(LinearMap(matrix, 3), InvalidArgumentError);
  CHECK_THROWS_AS(LinearMap({}, 3), InvalidArgumentError);
  CHECK_THROWS_AS(LinearMap({}, 0), InvalidArgumentError);
  CHECK_THROWS_AS(map.apply(std::span(matrix).last(3), out), InvalidArgumentError);
  map.apply(std::vector<float>(3), out);
  CHECK(out == std::vector<float>(2));
}

}  // namespace vecall::testing

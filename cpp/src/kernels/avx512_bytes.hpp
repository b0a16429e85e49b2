#pragma once

// Products with a matrix of bytes. VPDPBUSD multiplies unsigned bytes by signed ones, so
// a value v of a row becomes 4,096 + v = 64 * upper + lower, both from 0 to 127, and the
// sums of the columns take the 4,096 away again. Include from the AVX-512 kernel file
// only.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

namespace bytes {

constexpr std::size_t kPlaneBytes = std::size_t{20} << 10;

// Values in two planes of bytes, the upper one after the lower one.
class Planes {
 public:
  void split(const std::int16_t* values, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; i += 32) {
      const __m512i shifted =
          _mm512_add_epi16(load(values + i, count - i), _mm512_set1_epi16(4096));
      store(i, _mm512_and_si512(shifted, _mm512_set1_epi16(63)));
      store(kPlaneBytes + i, _mm512_srli_epi16(shifted, 6));
    }
  }
  void narrow(const std::int16_t* values, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; i += 32) store(i, load(values + i, count - i));
  }
  [[nodiscard]] const std::uint8_t* lower() const noexcept { return bytes_; }

 private:
  static __m512i load(const std::int16_t* values, std::size_t left) noexcept {
    const __mmask32 lanes = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    return _mm512_maskz_loadu_epi16(lanes, values);
  }
  void store(std::size_t at, __m512i values) noexcept {
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes_ + at),
                       _mm512_cvtepi16_epi8(values));
  }

  alignas(64) std::uint8_t bytes_[2 * kPlaneBytes];
};

inline __m512i four_bytes(const std::uint8_t* from) noexcept {
  std::int32_t four = 0;
  std::memcpy(&four, from, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Rows of a block, whose first value is the planes' first.
struct Block {
  const std::uint8_t* lower;
  const std::uint32_t* starts;
  const float* factors;
  std::uint32_t base;
};

// The products of kRows rows with a group of columns. Few rows have several sums each,
// so that a multiplication does not wait for the result of the one before.
template <std::size_t kRows, bool kAreBytes>
void multiply_group(const ByteMatrix& matrix, std::size_t column, const Block& block,
                    float* out) noexcept {
  constexpr std::size_t kWays = kRows == 1 ? 4 : kRows < 4 ? 2 : 1;
  const std::int8_t* const group = matrix.bytes + column * matrix.depth;
  const std::uint8_t* row[kRows];
  for (std::size_t i = 0; i < kRows; ++i) {
    row[i] = block.lower + (block.starts[i] - block.base);
  }
  __m512i lower[kWays][kRows][2];
  __m512i upper[kWays][kRows][2];
#pragma GCC unroll 4
  for (std::size_t way = 0; way < kWays; ++way) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      lower[way][i][0] = lower[way][i][1] = _mm512_setzero_si512();
      upper[way][i][0] = upper[way][i][1] = _mm512_setzero_si512();
    }
  }
  std::size_t k = 0;
  const auto add = [&](std::size_t way) __attribute__((always_inline)) {
    const __m512i left = _mm512_loadu_si512(group + k * kGroupColumns);
    const __m512i right = _mm512_loadu_si512(group + k * kGroupColumns + 64);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kRows; ++i) {
      const __m512i low = four_bytes(row[i] + k);
      lower[way][i][0] = _mm512_dpbusd_epi32(lower[way][i][0], low, left);
      lower[way][i][1] = _mm512_dpbusd_epi32(lower[way][i][1], low, right);
      if constexpr (!kAreBytes) {
        const __m512i high = four_bytes(row[i] + kPlaneBytes + k);
        upper[way][i][0] = _mm512_dpbusd_epi32(upper[way][i][0], high, left);
        upper[way][i][1] = _mm512_dpbusd_epi32(upper[way][i][1], high, right);
      }
    }
    k += 4;
  };
  while (k + 4 * kWays <= matrix.depth) {
#pragma GCC unroll 4
    for (std::size_t way = 0; way < kWays; ++way) add(way);
  }
  while (k < matrix.depth) add(0);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      __m512i sum = lower[0][i][half];
      __m512i high = upper[0][i][half];
#pragma GCC unroll 4
      for (std::size_t way = 1; way < kWays; ++way) {
        sum = _mm512_add_epi32(sum, lower[way][i][half]);
        high = _mm512_add_epi32(high, upper[way][i][half]);
      }
      if constexpr (!kAreBytes) {
        const __m512i columns =
            _mm512_loadu_si512(matrix.column_sums + column + 16 * half);
        sum = _mm512_add_epi32(sum, _mm512_slli_epi32(high, 6));
        sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(columns, 12));
      }
      const __m512 scale =
          _mm512_mul_ps(_mm512_set1_ps(block.factors[i]),
                        _mm512_loadu_ps(matrix.steps + column + 16 * half));
      _mm512_storeu_ps(out + i * matrix.columns + column + 16 * half,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
    }
  }
}

template <bool kAreBytes>
void multiply_block(const ByteMatrix& matrix, const Block& block, std::size_t count,
                    float* out) noexcept {
  constexpr decltype(&multiply_group<1, kAreBytes>) kOf[] = {
      multiply_group<1, kAreBytes>, multiply_group<2, kAreBytes>,
      multiply_group<3, kAreBytes>, multiply_group<4, kAreBytes>,
      multiply_group<5, kAreBytes>, multiply_group<6, kAreBytes>,
      multiply_group<7, kAreBytes>};
  constexpr std::size_t kMost = std::size(kOf);
  // A group stays in the nearest cache for all rows, in parts of nearly equal size.
  const std::size_t parts = (count + kMost - 1) / kMost;
  for (std::size_t column = 0; column < matrix.columns; column += kGroupColumns) {
    std::size_t at = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t rows = (count - at) / (parts - part);
      const Block own = {block.lower, block.starts + at, block.factors + at, block.base};
      kOf[rows - 1](matrix, column, own, out + at * matrix.columns);
      at += rows;
    }
  }
}

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  Planes planes;
  std::size_t at = 0;
  while (at < rows.count) {
    const std::uint32_t base = rows.starts[at];
    std::size_t end = at + 1;  // as many rows as the planes take
    while (end < rows.count && rows.starts[end] - base + matrix.depth <= kPlaneBytes) {
      ++end;
    }
    const std::size_t count = rows.starts[end - 1] - base + matrix.depth;
    const Block block = {planes.lower(), rows.starts + at, rows.factors + at, base};
    if (rows.are_bytes) {
      planes.narrow(rows.values + base, count);
      multiply_block<true>(matrix, block, end - at, out + at * matrix.columns);
    } else {
      planes.split(rows.values + base, count);
      multiply_block<false>(matrix, block, end - at, out + at * matrix.columns);
    }
    at = end;
  }
}

}  // namespace bytes

}  // namespace

}  // namespace vecall::kernels

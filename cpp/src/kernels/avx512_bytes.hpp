#pragma once

// Products with a matrix of bytes. VPDPBUSD multiplies unsigned bytes by signed ones,
// so a value v of a row becomes 4,096 + v = 64 * upper + lower, both from 0 to 127, and
// the sums of the columns take the 4,096 away again. Include from the AVX-512 kernel
// file only.

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

// The sums of kRows rows with a group of columns, each in registers of its own: arrays
// that loops go through would lie in memory with some compilers.
template <std::size_t kRows, bool kAreBytes>
struct GroupSums {
  __m512i lower_left = _mm512_setzero_si512();
  __m512i lower_right = _mm512_setzero_si512();
  __m512i upper_left = _mm512_setzero_si512();
  __m512i upper_right = _mm512_setzero_si512();
  GroupSums<kRows - 1, kAreBytes> others;

  // Four values of each row; `left` and `right` are the bytes that belong to them.
  [[gnu::always_inline]] void add(const std::uint8_t* const* row, std::size_t k,
                                  __m512i left, __m512i right) noexcept {
    const __m512i low = four_bytes(row[0] + k);
    lower_left = _mm512_dpbusd_epi32(lower_left, low, left);
    lower_right = _mm512_dpbusd_epi32(lower_right, low, right);
    if constexpr (!kAreBytes) {
      const __m512i high = four_bytes(row[0] + kPlaneBytes + k);
      upper_left = _mm512_dpbusd_epi32(upper_left, high, left);
      upper_right = _mm512_dpbusd_epi32(upper_right, high, right);
    }
    if constexpr (kRows > 1) others.add(row + 1, k, left, right);
  }
  [[gnu::always_inline]] void add(const GroupSums& sums) noexcept {
    lower_left = _mm512_add_epi32(lower_left, sums.lower_left);
    lower_right = _mm512_add_epi32(lower_right, sums.lower_right);
    upper_left = _mm512_add_epi32(upper_left, sums.upper_left);
    upper_right = _mm512_add_epi32(upper_right, sums.upper_right);
    if constexpr (kRows > 1) others.add(sums.others);
  }
  [[gnu::always_inline]] void keep(__m512i* to) const noexcept {
    to[0] = lower_left;
    to[1] = lower_right;
    if constexpr (!kAreBytes) {
      to[2] = upper_left;
      to[3] = upper_right;
    }
    if constexpr (kRows > 1) others.keep(to + 4);
  }
};

template <bool kAreBytes>
struct GroupSums<0, kAreBytes> {};

// Writes the products of sums that were kept. No part of multiply_group, whose
// registers are all taken by the sums: GCC 12 would store them in each turn of its
// loop.
template <bool kAreBytes>
[[gnu::noinline]] void store_products(const __m512i* kept, std::size_t rows,
                                      const ByteMatrix& matrix, std::size_t column,
                                      const float* factors, float* out) noexcept {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      __m512i sum = kept[4 * i + half];
      const std::size_t at = column + 16 * half;
      if constexpr (!kAreBytes) {
        const __m512i high = kept[4 * i + 2 + half];
        const __m512i columns = _mm512_loadu_si512(matrix.column_sums + at);
        sum = _mm512_add_epi32(sum, _mm512_slli_epi32(high, 6));
        sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(columns, 12));
      }
      const __m512 scale =
          _mm512_mul_ps(_mm512_set1_ps(factors[i]), _mm512_loadu_ps(matrix.steps + at));
      _mm512_storeu_ps(out + i * matrix.columns + at,
                       _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale));
    }
  }
}

template <std::size_t kRows, bool kAreBytes>
void multiply_group(const ByteMatrix& matrix, std::size_t column, const Block& block,
                    std::size_t ahead, float* out) noexcept {
  const std::int8_t* const group = matrix.bytes + column * matrix.depth;
  const std::uint8_t* row[kRows];
  for (std::size_t i = 0; i < kRows; ++i) {
    row[i] = block.lower + (block.starts[i] - block.base);
  }
  GroupSums<kRows, kAreBytes> sums;
  const auto add = [&](GroupSums<kRows, kAreBytes>& to,
                       std::size_t k) __attribute__((always_inline)) {
    const std::int8_t* const four = group + k * kGroupColumns;
    __builtin_prefetch(four + ahead);
    __builtin_prefetch(four + ahead + 64);
    to.add(row, k, _mm512_loadu_si512(four), _mm512_loadu_si512(four + 64));
  };
  std::size_t k = 0;
  if constexpr (kRows < 3) {
    // Few sums: with as many again no multiplication waits for the one before.
    GroupSums<kRows, kAreBytes> more;
    for (; k + 8 <= matrix.depth; k += 8) {
      add(sums, k);
      add(more, k + 4);
    }
    sums.add(more);
  }
#pragma GCC unroll 1
  for (; k < matrix.depth; k += 4) add(sums, k);
  __m512i kept[4 * kRows];
  sums.keep(kept);
  store_products<kAreBytes>(kept, kRows, matrix, column, block.factors, out);
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
  const std::size_t of_group = matrix.depth * kGroupColumns;
  for (std::size_t column = 0; column < matrix.columns; column += kGroupColumns) {
    std::size_t at = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t rows = (count - at) / (parts - part);
      const Block own = {block.lower, block.starts + at, block.factors + at,
                         block.base};
      // What the last part reads ahead is the next group. Processors do not read ahead
      // over the end of a page.
      const std::size_t ahead = part + 1 < parts ? 0 : parts == 1 ? 4096 : of_group;
      kOf[rows - 1](matrix, column, own, ahead, out + at * matrix.columns);
      at += rows;
    }
  }
}

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  Planes planes;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
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

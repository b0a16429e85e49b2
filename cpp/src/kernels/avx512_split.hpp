#pragma once

// Sums of rows that lie one after another, by a query of 16 bits that is split into two
// of 8. Include from the AVX-512 kernel file only.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kLine = 64;  // bytes, a whole block of a plane

inline __m256i load32(const std::uint8_t* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// The last 64 values of a row whose width is no multiple of 128: their low nibbles in
// one half of the register, their high ones in the other, as the query has them.
inline __m512i half_line(const std::uint8_t* codes) noexcept {
  const __m512i shifts = _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4);
  const __m512i twice = _mm512_broadcast_i64x4(load32(codes));
  return _mm512_and_si512(_mm512_srlv_epi64(twice, shifts), _mm512_set1_epi8(15));
}

// The sums of four registers, one in each element.
inline __m128i sum_each(__m512i a, __m512i b, __m512i c, __m512i d) noexcept {
  const __m512i ab =
      _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd =
      _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  const __m512i all =
      _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  const __m256i half =
      _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// A query of 16 bits as two of 8: q = 256 * upper + lower.
constexpr std::size_t kSplitValues = 4096;  // so that sums of 32 bits fit
struct SplitQuery {
  alignas(kLine) std::int8_t upper[kSplitValues] = {};
  alignas(kLine) std::int8_t lower[kSplitValues] = {};

  SplitQuery(const std::int16_t* q, std::size_t width) noexcept {
    for (std::size_t i = 0; i < width; i += 32) {
      const __m512i both = _mm512_loadu_si512(q + i);
      const __m512i high =
          _mm512_srai_epi16(_mm512_add_epi16(both, _mm512_set1_epi16(128)), 8);
      _mm256_store_si256(reinterpret_cast<__m256i*>(upper + i),
                         _mm512_cvtepi16_epi8(high));
      _mm256_store_si256(reinterpret_cast<__m256i*>(lower + i),
                         _mm512_cvtepi16_epi8(both));
    }
  }
};

// 128 values of a split query.
struct SplitLine {
  __m512i upper[2];
  __m512i lower[2];
};

// Sums of one row by a split query: bytes are multiplied where they stand, which takes
// half of the steps of widening them.
struct SplitSum {
  __m512i upper = _mm512_setzero_si512();   // counts for 65,536
  __m512i middle = _mm512_setzero_si512();  // for 256
  __m512i lower = _mm512_setzero_si512();

  void add(__m512i high, __m512i low, __m512i q_upper, __m512i q_lower) noexcept {
    upper = _mm512_dpbusd_epi32(upper, high, q_upper);
    middle = _mm512_dpbusd_epi32(middle, high, q_lower);
    middle = _mm512_dpbusd_epi32(middle, low, q_upper);
    lower = _mm512_dpbusd_epi32(lower, low, q_lower);
  }
  void add_line(const std::uint8_t* high, const std::uint8_t* low,
                const SplitLine& q) noexcept {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i codes = _mm512_loadu_si512(high);
    add(_mm512_and_si512(codes, mask), _mm512_loadu_si512(low), q.upper[0], q.lower[0]);
    add(_mm512_and_si512(_mm512_srli_epi16(codes, 4), mask),
        _mm512_loadu_si512(low + kLine), q.upper[1], q.lower[1]);
  }
  void add_half_line(const std::uint8_t* high, const std::uint8_t* low,
                     const SplitLine& q) noexcept {
    add(half_line(high), _mm512_loadu_si512(low), q.upper[0], q.lower[0]);
  }
};

template <std::size_t kRows>
[[gnu::always_inline]] inline void add_split_rows(const SplitQuery& query,
                                                  const std::uint8_t* high,
                                                  const std::uint8_t* low,
                                                  std::size_t width,
                                                  SplitSum* sums) noexcept {
  SplitLine q = {};
  std::size_t at = 0;
  for (; at + kPlaneBlock <= width; at += kPlaneBlock) {
    for (std::size_t half = 0; half < 2; ++half) {
      q.upper[half] = _mm512_load_si512(query.upper + at + half * kLine);
      q.lower[half] = _mm512_load_si512(query.lower + at + half * kLine);
    }
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row].add_line(high + row * (width / 2) + at / 2, low + row * width + at, q);
    }
  }
  if (at < width) {
    q.upper[0] = _mm512_load_si512(query.upper + at);
    q.lower[0] = _mm512_load_si512(query.lower + at);
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row].add_half_line(high + row * (width / 2) + at / 2, low + row * width + at,
                              q);
    }
  }
}

// Sums of as many of the rows as make whole groups of four, unless they are too wide;
// returns how many.
inline std::size_t split_sums(const std::uint8_t* high, const std::uint8_t* low,
                              const std::int16_t* q, std::size_t width,
                              std::size_t count, double* out) noexcept {
  if (width > kSplitValues || count < 4) return 0;
  const SplitQuery query(q, width);
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    SplitSum sums[4];
    add_split_rows<4>(query, high + i * (width / 2), low + i * width, width, sums);
    const auto each = [&sums](__m512i SplitSum::* part) {
      return _mm256_cvtepi32_epi64(
          sum_each(sums[0].*part, sums[1].*part, sums[2].*part, sums[3].*part));
    };
    const __m256i above =
        _mm256_add_epi64(_mm256_slli_epi64(each(&SplitSum::upper), 16),
                         _mm256_slli_epi64(each(&SplitSum::middle), 8));
    const __m256i sum = _mm256_add_epi64(above, each(&SplitSum::lower));
    _mm256_storeu_pd(out + i, _mm256_cvtepi64_pd(sum));
  }
  return i;
}

}  // namespace

}  // namespace vecall::kernels

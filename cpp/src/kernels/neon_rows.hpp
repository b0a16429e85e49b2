#pragma once

// Loops over rows of nibbles that the NEON tiers share; each brings its own way to
// multiply bytes. Include from kernel files only.

#include <arm_neon.h>

#include "kernels/kernel_table.hpp"
#include "kernels/scan_rows.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kRowsTogether = 4;
constexpr std::size_t kChunk = 16;  // bytes of one register

// Rows that share each load of the query. RowSum adds up one row: add() takes 16 low
// and 16 high nibbles, at most four times before end_block().
template <class RowSum, std::size_t kRows>
void nibble_sums(const CodeQuery& query, const std::uint8_t* const* rows,
                 std::int32_t* out) noexcept {
  RowSum sums[kRows];
  for (std::size_t at = 0; at < query.width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, query.width);
    for (std::size_t j = 0; j < half; j += kChunk) {
      const int8x16_t q_low = vld1q_s8(query.q8 + at + j);
      const int8x16_t q_high = vld1q_s8(query.q8 + at + half + j);
      for (std::size_t row = 0; row < kRows; ++row) {
        const uint8x16_t bytes = vld1q_u8(rows[row] + at / 2 + j);
        sums[row].add(vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))),
                      vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4)), q_low, q_high);
      }
    }
    for (std::size_t row = 0; row < kRows; ++row) sums[row].end_block();
  }
  for (std::size_t row = 0; row < kRows; ++row) out[row] = sums[row].total();
}

template <class RowSum>
struct Estimates {
  template <class RowAt>
  static void of(const CodeQuery& query, RowAt row_at, const float* factors,
                 std::size_t count, float* out) noexcept {
    std::int32_t sums[kRowsTogether];
    std::size_t i = 0;
    for (; i + kRowsTogether <= count; i += kRowsTogether) {
      const std::uint8_t* rows[kRowsTogether];
      for (std::size_t row = 0; row < kRowsTogether; ++row) rows[row] = row_at(i + row);
      nibble_sums<RowSum, kRowsTogether>(query, rows, sums);
      for (std::size_t row = 0; row < kRowsTogether; ++row) {
        out[i + row] = estimate(query, sums[row], factors[i + row]);
      }
    }
    for (; i < count; ++i) {
      const std::uint8_t* row = row_at(i);
      nibble_sums<RowSum, 1>(query, &row, sums);
      out[i] = estimate(query, sums[0], factors[i]);
    }
  }
};

}  // namespace

}  // namespace vecall::kernels

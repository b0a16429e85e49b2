#pragma once

// Products of rows of 16-bit integers with one vector of them. Compiled once for each
// instruction set with that set's flags; include from kernel files only. The sums are
// of integers, so each compiler may choose the order, and its own instruction for the
// sum of two products of 16 bits.

#include <cstddef>
#include <cstdint>

namespace vecall::kernels {

namespace {

// 256 products of at most 2,047 * 4,095 fit into 32 bits.
template <std::size_t kCount>
[[gnu::always_inline]] inline std::int32_t sum_block(const std::int16_t* a,
                                                     const std::int16_t* b) noexcept {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < kCount; ++i) sum += a[i] * b[i];
  return sum;
}

void sum_int16_rows(const std::int16_t* rows, const std::int16_t* q, std::size_t width,
                    std::size_t count, double* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int16_t* row = rows + i * width;
    std::int64_t sum = 0;
    std::size_t at = 0;
    for (; at + 256 <= width; at += 256) sum += sum_block<256>(row + at, q + at);
    for (; at < width; at += 64) sum += sum_block<64>(row + at, q + at);
    out[i] = static_cast<double>(sum);
  }
}

}  // namespace

}  // namespace vecall::kernels

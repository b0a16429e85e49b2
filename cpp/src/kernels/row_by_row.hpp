#pragma once

// Sums of many rows by the kernel for one. For tiers where rows that are taken together
// share too little to be faster. Include from kernel files only.

#include <cstddef>
#include <cstdint>

namespace vecall::kernels {

namespace {

template <auto kSumHigh>
void row_by_row(const std::uint8_t* high, const std::uint8_t* low,
                const std::int16_t* q, std::size_t width, std::size_t count,
                double* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<double>(
        kSumHigh(high + i * (width / 2), low + i * width, q, width));
  }
}

}  // namespace

}  // namespace vecall::kernels

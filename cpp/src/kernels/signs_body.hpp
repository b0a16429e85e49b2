#pragma once

// What the tiers share of the kernels of signs. Include from kernel files only.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

// GroupSums::of<kQueries>(queries, group, sums, stride) fills the sums of one group's
// rows, those of each query `stride` behind those of the one before.
template <class GroupSums, std::size_t kTogether>
void sign_sums(const SignQuery* queries, std::size_t count, const std::uint8_t* signs,
               std::size_t groups, std::uint16_t* sums) noexcept {
  const std::size_t stride = groups * kSignGroup;
  for (std::size_t group = 0; group < groups; ++group) {
    std::size_t i = 0;
    for (; i + kTogether <= count; i += kTogether) {
      GroupSums::template of<kTogether>(queries + i, signs, sums + i * stride, stride);
    }
    for (; i < count; ++i) {
      GroupSums::template of<1>(queries + i, signs, sums + i * stride, stride);
    }
    signs += kSignGroup * queries->width / 8;
    sums += kSignGroup;
  }
}

// kAtLeast is the tier's `at_least`.
template <auto kAtLeast>
std::size_t sums_reaching(const SignQuery& query, const std::uint16_t* sums,
                          const float* factors, std::size_t count, float plus,
                          float least, std::uint32_t* positions,
                          float* reaches) noexcept {
  constexpr std::size_t kTogether = 256;  // rows that are compared at once
  alignas(64) float reach[kTogether];
  const std::int32_t bias = query.bias;
  const float scale = query.scale;
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < count; begin += kTogether) {
    const std::size_t here = count - begin < kTogether ? count - begin : kTogether;
    for (std::size_t i = 0; i < here; ++i) {
      const auto centred = static_cast<float>(2 * std::int32_t{sums[begin + i]} - bias);
      reach[i] = factors[begin + i] * (scale * centred + plus);
    }
    const std::size_t more = kAtLeast(reach, here, least, positions + found);
    for (std::size_t i = 0; i < more; ++i) {
      reaches[found] = reach[positions[found]];
      positions[found++] += static_cast<std::uint32_t>(begin);
    }
  }
  return found;
}

}  // namespace

}  // namespace vecall::kernels

#pragma once

// Rows that their signs do not rule out, from a tier's sums: GroupSums::of(query,
// group, sums) fills the sums of a group's rows, and kAtLeast is the tier's `at_least`.
// Include from kernel files only.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

template <class GroupSums, auto kAtLeast>
std::size_t signs_reaching(const SignQuery& query, const std::uint8_t* signs,
                           const float* factors, std::size_t groups, float plus,
                           float least, std::uint32_t* positions,
                           float* reaches) noexcept {
  constexpr std::size_t kTogether = 4 * kSignGroup;  // rows that are compared at once
  alignas(64) std::uint16_t sums[kTogether];
  alignas(64) float reach[kTogether];
  const std::int32_t bias = query.bias;
  const float scale = query.scale;
  const std::size_t count = groups * kSignGroup;
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < count; begin += kTogether) {
    const std::size_t here = count - begin < kTogether ? count - begin : kTogether;
    for (std::size_t at = 0; at < here; at += kSignGroup) {
      GroupSums::of(query, signs, sums + at);
      signs += kSignGroup * query.width / 8;
    }
    for (std::size_t i = 0; i < here; ++i) {
      const auto centred = static_cast<float>(2 * std::int32_t{sums[i]} - bias);
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

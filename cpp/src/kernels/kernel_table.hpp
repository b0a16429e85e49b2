#pragma once

// One instruction set's kernels. Contract for every slot: inputs need no alignment, dim
// may be 0, nothing past the last element is read, nothing is allocated or thrown. A
// tier leaves null the slots that it does not improve; they are inherited from the next
// runnable tier.
//
// Sums are float32 in several lanes, so tiers differ in the last bits: every tier is
// within dim * 2^-24 * sum(|a_i * b_i|) of the exact dot product (and in practice
// within a tenth of that), which tests check against float64.

#include <cstddef>
#include <cstdint>

namespace vecall::kernels {

struct KernelTable {
  const char* name;
  std::uint32_t needs;  // CpuFeature bits
  float (*dot)(const float* a, const float* b, std::size_t dim) noexcept;
  // out[i] = dot(query, rows + i * stride) for `count` rows that lie one after another.
  void (*dot_rows)(const float* query, const float* rows, std::size_t count,
                   std::size_t dim, std::size_t stride, float* out) noexcept;
};

}  // namespace vecall::kernels

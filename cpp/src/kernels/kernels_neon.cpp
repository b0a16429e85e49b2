// NEON (Advanced SIMD of AArch64). Four accumulators of four floats.

#include <arm_neon.h>

#include "kernels/cpu.hpp"
#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kWidth = 4;
constexpr std::size_t kBlock = 4 * kWidth;

float dot(const float* a, const float* b, std::size_t dim) noexcept {
  float32x4_t sum0 = vdupq_n_f32(0.0F);
  float32x4_t sum1 = vdupq_n_f32(0.0F);
  float32x4_t sum2 = vdupq_n_f32(0.0F);
  float32x4_t sum3 = vdupq_n_f32(0.0F);
  std::size_t i = 0;
  for (; i + kBlock <= dim; i += kBlock) {
    sum0 = vfmaq_f32(sum0, vld1q_f32(a + i), vld1q_f32(b + i));
    sum1 = vfmaq_f32(sum1, vld1q_f32(a + i + 4), vld1q_f32(b + i + 4));
    sum2 = vfmaq_f32(sum2, vld1q_f32(a + i + 8), vld1q_f32(b + i + 8));
    sum3 = vfmaq_f32(sum3, vld1q_f32(a + i + 12), vld1q_f32(b + i + 12));
  }
  for (; i + kWidth <= dim; i += kWidth) {
    sum0 = vfmaq_f32(sum0, vld1q_f32(a + i), vld1q_f32(b + i));
  }
  float sum = vaddvq_f32(vaddq_f32(vaddq_f32(sum0, sum1), vaddq_f32(sum2, sum3)));
  for (; i < dim; ++i) sum += a[i] * b[i];
  return sum;
}

void dot_rows(const float* query, const float* rows, std::size_t count, std::size_t dim,
              std::size_t stride, float* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = dot(query, rows + i * stride, dim);
}

}  // namespace

extern const KernelTable kNeonTable;
const KernelTable kNeonTable = {"neon", kCpuNeon, dot, dot_rows};

}  // namespace vecall::kernels

// AVX2 with FMA. Four accumulators of eight floats: an FMA takes four cycles and two
// start in each, so fewer than eight in flight leave a unit idle, and four already
// reach the bandwidth of the second-level cache.

#include <immintrin.h>

#include "kernels/cpu.hpp"
#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kWidth = 8;
constexpr std::size_t kBlock = 4 * kWidth;

// All ones for the first `count` of eight lanes; loads under it read nothing beyond.
__m256i first_lanes(std::size_t count) noexcept {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}

float sum_of(__m256 x) noexcept {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  half = _mm_add_ss(half, _mm_movehdup_ps(half));
  return _mm_cvtss_f32(half);
}

float dot(const float* a, const float* b, std::size_t dim) noexcept {
  __m256 sum0 = _mm256_setzero_ps();
  __m256 sum1 = _mm256_setzero_ps();
  __m256 sum2 = _mm256_setzero_ps();
  __m256 sum3 = _mm256_setzero_ps();
  std::size_t i = 0;
  for (; i + kBlock <= dim; i += kBlock) {
    sum0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), sum0);
    sum1 =
        _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8), _mm256_loadu_ps(b + i + 8), sum1);
    sum2 =
        _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 16), _mm256_loadu_ps(b + i + 16), sum2);
    sum3 =
        _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 24), _mm256_loadu_ps(b + i + 24), sum3);
  }
  for (; i + kWidth <= dim; i += kWidth) {
    sum0 = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), sum0);
  }
  if (i < dim) {
    const __m256i rest = first_lanes(dim - i);
    sum1 = _mm256_fmadd_ps(_mm256_maskload_ps(a + i, rest),
                           _mm256_maskload_ps(b + i, rest), sum1);
  }
  return sum_of(_mm256_add_ps(_mm256_add_ps(sum0, sum1), _mm256_add_ps(sum2, sum3)));
}

// Row after row: the hardware prefetcher follows one stream best.
void dot_rows(const float* query, const float* rows, std::size_t count, std::size_t dim,
              std::size_t stride, float* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = dot(query, rows + i * stride, dim);
}

}  // namespace

extern const KernelTable kAvx2Table;
const KernelTable kAvx2Table = {"avx2", kCpuAvx2Fma, dot, dot_rows};

}  // namespace vecall::kernels

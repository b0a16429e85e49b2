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

// The four running sums of one row.
struct Sums {
  __m256 part[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps()};

  void add(int which, const float* a, __m256 b) noexcept {
    part[which] = _mm256_fmadd_ps(_mm256_loadu_ps(a), b, part[which]);
  }
  [[nodiscard]] float total() const noexcept {
    return sum_of(_mm256_add_ps(_mm256_add_ps(part[0], part[1]),
                                _mm256_add_ps(part[2], part[3])));
  }
};

// Rows that share each load of the query: one load a multiply-add instead of two. The
// sums of a row do not depend on how many rows go together.
template <int kRows>
void dot_together(const float* query, const float* rows, std::size_t stride,
                  std::size_t dim, float* out) noexcept {
  Sums sums[kRows];
  std::size_t i = 0;
  for (; i + kBlock <= dim; i += kBlock) {
    for (int which = 0; which < 4; ++which) {
      const std::size_t at = i + static_cast<std::size_t>(which) * kWidth;
      const __m256 q = _mm256_loadu_ps(query + at);
      for (int row = 0; row < kRows; ++row) {
        sums[row].add(which, rows + static_cast<std::size_t>(row) * stride + at, q);
      }
    }
  }
  for (; i + kWidth <= dim; i += kWidth) {
    const __m256 q = _mm256_loadu_ps(query + i);
    for (int row = 0; row < kRows; ++row) {
      sums[row].add(0, rows + static_cast<std::size_t>(row) * stride + i, q);
    }
  }
  if (i < dim) {
    const __m256i rest = first_lanes(dim - i);
    const __m256 q = _mm256_maskload_ps(query + i, rest);
    for (int row = 0; row < kRows; ++row) {
      const float* at = rows + static_cast<std::size_t>(row) * stride + i;
      sums[row].part[1] =
          _mm256_fmadd_ps(_mm256_maskload_ps(at, rest), q, sums[row].part[1]);
    }
  }
  for (int row = 0; row < kRows; ++row) out[row] = sums[row].total();
}

float dot(const float* a, const float* b, std::size_t dim) noexcept {
  float out = 0.0F;
  dot_together<1>(a, b, 0, dim, &out);
  return out;
}

void dot_rows(const float* query, const float* rows, std::size_t count, std::size_t dim,
              std::size_t stride, float* out) noexcept {
  std::size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    dot_together<2>(query, rows + i * stride, stride, dim, out + i);
  }
  if (i < count) dot_together<1>(query, rows + i * stride, stride, dim, out + i);
}

}  // namespace

extern const KernelTable kAvx2Table;
const KernelTable kAvx2Table = {"avx2", kCpuAvx2Fma, dot, dot_rows};

}  // namespace vecall::kernels

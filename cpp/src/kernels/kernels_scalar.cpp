// Plain C++: the reference that runs everywhere. Eight independent sums, so that the
// compiler may use the baseline's own vector registers without changing the result.

#include "kernels/cpu.hpp"
#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kLanes = 8;

float dot(const float* a, const float* b, std::size_t dim) noexcept {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (std::size_t lane = 0; i < dim; ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
         ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void dot_rows(const float* query, const float* rows, std::size_t count, std::size_t dim,
              std::size_t stride, float* out) noexcept {
  for (std::size_t i = 0; i < count; ++i) out[i] = dot(query, rows + i * stride, dim);
}

}  // namespace

extern const KernelTable kScalarTable;
const KernelTable kScalarTable = {"scalar", kCpuBaseline, dot, dot_rows};

}  // namespace vecall::kernels

// NEON with the dot products and the CRC of ARMv8.2 (Cortex-A76, Neoverse N1, Apple M1
// and later). SDOT multiplies bytes and adds four of them at once; nibbles are as well
// signed bytes.

#include <arm_acle.h>
#include <arm_neon.h>

#include <cstring>

#include "kernels/cpu.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/neon_rows.hpp"

namespace vecall::kernels {

namespace {

// 32-bit sums of four products take any width.
struct RowSum {
  int32x4_t low_sum = vdupq_n_s32(0);
  int32x4_t high_sum = vdupq_n_s32(0);

  void add(int8x16_t low, int8x16_t high, int8x16_t q_low, int8x16_t q_high) noexcept {
    low_sum = vdotq_s32(low_sum, low, q_low);
    high_sum = vdotq_s32(high_sum, high, q_high);
  }
  void end_block() noexcept {}
  [[nodiscard]] std::int32_t total() const noexcept {
    return vaddvq_s32(vaddq_s32(low_sum, high_sum));
  }
};

std::uint32_t crc32c(std::uint32_t crc, const std::uint8_t* bytes,
                     std::size_t count) noexcept {
  crc = ~crc;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= count; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof(word));
    crc = __crc32cd(crc, word);
  }
  for (; i < count; ++i) crc = __crc32cb(crc, bytes[i]);
  return ~crc;
}

// SDOT multiplies signed bytes, so a value of a row becomes 64 * upper + lower, from
// -64 to 64 and from -32 to 31.
constexpr std::size_t kPlaneBytes = std::size_t{20} << 10;

struct Planes {
  std::int8_t upper[kPlaneBytes];
  std::int8_t lower[kPlaneBytes];

  void split(const std::int16_t* values, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const int high = (values[i] + 32) >> 6;
      upper[i] = static_cast<std::int8_t>(high);
      lower[i] = static_cast<std::int8_t>(values[i] - 64 * high);
    }
  }
};

inline int8x16_t four_bytes(const std::int8_t* from) noexcept {
  std::int32_t four = 0;
  std::memcpy(&four, from, sizeof(four));
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

// The products of kRows rows with 8 columns.
template <std::size_t kRows>
void multiply_columns(const ByteMatrix& matrix, std::size_t column,
                      const Planes& planes, const std::uint32_t* starts,
                      std::uint32_t base, const float* factors, float* out) noexcept {
  const std::int8_t* bytes = matrix.bytes +
                             column / kGroupColumns * kGroupColumns * matrix.depth +
                             4 * (column % kGroupColumns);
  int32x4_t upper[kRows][2];
  int32x4_t lower[kRows][2];
  for (std::size_t i = 0; i < kRows; ++i) {
    upper[i][0] = upper[i][1] = lower[i][0] = lower[i][1] = vdupq_n_s32(0);
  }
  for (std::size_t k = 0; k < matrix.depth; k += 4) {
    const int8x16_t left = vld1q_s8(bytes);
    const int8x16_t right = vld1q_s8(bytes + 16);
    for (std::size_t i = 0; i < kRows; ++i) {
      const int8x16_t high = four_bytes(planes.upper + (starts[i] - base) + k);
      const int8x16_t low = four_bytes(planes.lower + (starts[i] - base) + k);
      upper[i][0] = vdotq_s32(upper[i][0], left, high);
      upper[i][1] = vdotq_s32(upper[i][1], right, high);
      lower[i][0] = vdotq_s32(lower[i][0], left, low);
      lower[i][1] = vdotq_s32(lower[i][1], right, low);
    }
    bytes += 4 * kGroupColumns;
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = column + 4 * half;
      const int32x4_t sum = vaddq_s32(vshlq_n_s32(upper[i][half], 6), lower[i][half]);
      const float32x4_t scale = vmulq_n_f32(vld1q_f32(matrix.steps + at), factors[i]);
      vst1q_f32(out + i * matrix.columns + at, vmulq_f32(vcvtq_f32_s32(sum), scale));
    }
  }
}

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  constexpr std::size_t kTogether = 4;
  Planes planes;
  std::size_t at = 0;
  while (at < rows.count) {
    const std::uint32_t base = rows.starts[at];
    std::size_t end = at + 1;  // as many rows as the planes take
    while (end < rows.count && rows.starts[end] - base + matrix.depth <= kPlaneBytes) {
      ++end;
    }
    planes.split(rows.values + base, rows.starts[end - 1] - base + matrix.depth);
    for (std::size_t column = 0; column < matrix.columns; column += 8) {
      const auto go = [&]<std::size_t kRows>(std::size_t row) {
        multiply_columns<kRows>(matrix, column, planes, rows.starts + row, base,
                                rows.factors + row, out + row * matrix.columns);
      };
      std::size_t row = at;
      for (; row + kTogether <= end; row += kTogether) {
        go.template operator()<kTogether>(row);
      }
      for (; row < end; ++row) go.template operator()<1>(row);
    }
    at = end;
  }
}

}  // namespace

extern const KernelTable kNeonDotprodTable;
const KernelTable kNeonDotprodTable = {
    .name = "neon_dotprod",
    .needs = kCpuNeon | kCpuNeonDotprod,
    .scan = scan<Estimates<RowSum>>,
    .gather = gather<Estimates<RowSum>>,
    .crc32c = crc32c,
    .multiply = multiply,
};

}  // namespace vecall::kernels

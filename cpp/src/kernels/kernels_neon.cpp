// NEON (Advanced SIMD of AArch64). Nibbles and values below 2^12 are multiplied into
// the next wider type, where a block of 128 of them fits before it has to widen again.
// The rotation, the products of 16-bit rows and the checksum are the scalar ones: the
// baseline compiler has no more to use here than there.

#include <arm_neon.h>

#include "kernels/cpu.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/neon_rows.hpp"
#include "kernels/row_by_row.hpp"
#include "kernels/signs_body.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kWidth = 4;
constexpr std::size_t kBlock = 4 * kWidth;

// Four accumulators of four floats.
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

// A 16-bit element takes 17 products of 15 * -128 before it can overflow: a block gives
// it 16.
struct RowSum {
  int16x8_t block = vdupq_n_s16(0);
  int32x4_t sum = vdupq_n_s32(0);

  void add(int8x16_t low, int8x16_t high, int8x16_t q_low, int8x16_t q_high) noexcept {
    block = vmlal_s8(block, vget_low_s8(low), vget_low_s8(q_low));
    block = vmlal_high_s8(block, low, q_low);
    block = vmlal_s8(block, vget_low_s8(high), vget_low_s8(q_high));
    block = vmlal_high_s8(block, high, q_high);
  }
  void end_block() noexcept {
    sum = vpadalq_s16(sum, block);
    block = vdupq_n_s16(0);
  }
  [[nodiscard]] std::int32_t total() const noexcept { return vaddvq_s32(sum); }
};

// Values of 16 bits against a query of 16 bits. A 32-bit element takes 16 products of
// 4,095 * 32,512 before it can overflow: a block gives each sum eight.
struct ValueSum {
  int32x4_t block[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
  int64x2_t sum = vdupq_n_s64(0);

  // Eight values in the first two sums or the last two.
  void add(std::size_t pair, uint16x8_t values, const std::int16_t* q) noexcept {
    const int16x8_t value = vreinterpretq_s16_u16(values);
    const int16x8_t by = vld1q_s16(q);
    int32x4_t* sums = block + 2 * pair;
    sums[0] = vmlal_s16(sums[0], vget_low_s16(value), vget_low_s16(by));
    sums[1] = vmlal_high_s16(sums[1], value, by);
  }
  void end_block() noexcept {
    for (int32x4_t& part : block) {
      sum = vpadalq_s32(sum, part);
      part = vdupq_n_s32(0);
    }
  }
};

// sum(value_i * q_i) where value_at(nibbles, i) makes eight values of the nibbles that
// belong to the values from i on.
template <class ValuesAt>
std::int64_t value_sum(const std::uint8_t* nibbles, const std::int16_t* q,
                       std::size_t width, ValuesAt values_at) noexcept {
  ValueSum sum;
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, width);
    for (std::size_t j = 0; j < half; j += kChunk / 2) {
      const uint8x8_t bytes = vld1_u8(nibbles + at / 2 + j);
      const std::size_t low = at + j;
      const std::size_t high = at + half + j;
      sum.add(0, values_at(vand_u8(bytes, vdup_n_u8(15)), low), q + low);
      sum.add(1, values_at(vshr_n_u8(bytes, 4), high), q + high);
    }
    sum.end_block();
  }
  return vaddvq_s64(sum.sum);
}

std::int64_t sum_high(const std::uint8_t* high, const std::uint8_t* low,
                      const std::int16_t* q, std::size_t width) noexcept {
  return value_sum(high, q, width, [low](uint8x8_t nibbles, std::size_t i) {
    return vaddw_u8(vshll_n_u8(nibbles, 8), vld1_u8(low + i));
  });
}

std::int64_t sum_nibbles(const std::uint8_t* nibbles, const std::int16_t* q,
                         std::size_t width) noexcept {
  return value_sum(nibbles, q, width,
                   [](uint8x8_t values, std::size_t) { return vmovl_u8(values); });
}

std::size_t at_least(const float* values, std::size_t count, float threshold,
                     std::uint32_t* positions) noexcept {
  constexpr std::size_t kTogether = 16;
  // Four bits of the mask stand for one value; one of them is enough to count it.
  constexpr std::uint64_t kOneOfFour = 0x1111'1111'1111'1111U;
  const float32x4_t limit = vdupq_n_f32(threshold);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + kTogether <= count; i += kTogether) {
    const auto passes = [&](std::size_t part) {
      return vcgeq_f32(vld1q_f32(values + i + 4 * part), limit);
    };
    const uint16x8_t first =
        vuzp1q_u16(vreinterpretq_u16_u32(passes(0)), vreinterpretq_u16_u32(passes(1)));
    const uint16x8_t last =
        vuzp1q_u16(vreinterpretq_u16_u32(passes(2)), vreinterpretq_u16_u32(passes(3)));
    const uint8x16_t all =
        vuzp1q_u8(vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(last));
    const uint8x8_t narrow = vshrn_n_u16(vreinterpretq_u16_u8(all), 4);
    std::uint64_t mask = vget_lane_u64(vreinterpret_u64_u8(narrow), 0) & kOneOfFour;
    while (mask != 0) {
      const auto place = static_cast<std::size_t>(__builtin_ctzll(mask)) / 4;
      positions[found++] = static_cast<std::uint32_t>(i + place);
      mask &= mask - 1;
    }
  }
  for (; i < count; ++i) {
    if (values[i] >= threshold) positions[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

struct GroupSums {
  template <std::size_t>
  static void of(const SignQuery* query, const std::uint8_t* group, std::uint16_t* sums,
                 std::size_t /*unused*/) noexcept {
    for (std::size_t row = 0; row < kSignGroup; row += kChunk) {
      uint16x8_t first = vdupq_n_u16(0);
      uint16x8_t last = vdupq_n_u16(0);
      const std::uint8_t* table = query->tables;
      const std::uint8_t* line = group + row;
      for (std::size_t at = 0; at < query->width; at += 16) {
        const uint8x16_t part =
            vaddq_u8(entries(table, line), entries(table + 32, line + kSignGroup));
        first = vaddw_u8(first, vget_low_u8(part));
        last = vaddw_high_u8(last, part);
        table += 64;
        line += 2 * kSignGroup;
      }
      vst1q_u16(sums + row, first);
      vst1q_u16(sums + row + 8, last);
    }
  }
  // What 16 rows add for eight values.
  static uint8x16_t entries(const std::uint8_t* table,
                            const std::uint8_t* line) noexcept {
    const uint8x16_t bits = vld1q_u8(line);
    return vaddq_u8(vqtbl1q_u8(vld1q_u8(table), vandq_u8(bits, vdupq_n_u8(15))),
                    vqtbl1q_u8(vld1q_u8(table + 16), vshrq_n_u8(bits, 4)));
  }
};

// The products of kRows rows with 8 columns.
template <std::size_t kRows>
void multiply_columns(const ByteMatrix& matrix, std::size_t column,
                      const ValueRows& rows, std::size_t first, float* out) noexcept {
  const std::int8_t* bytes = matrix.bytes +
                             column / kGroupColumns * kGroupColumns * matrix.depth +
                             4 * (column % kGroupColumns);
  int32x4_t sums[kRows][2];
  for (auto& sum : sums) sum[0] = sum[1] = vdupq_n_s32(0);
  for (std::size_t k = 0; k < matrix.depth; k += 4) {
    const int8x8x4_t four = vld4_s8(bytes);  // one row of the matrix in each
    const int16x8_t wide[4] = {vmovl_s8(four.val[0]), vmovl_s8(four.val[1]),
                               vmovl_s8(four.val[2]), vmovl_s8(four.val[3])};
    for (std::size_t i = 0; i < kRows; ++i) {
      const int16x4_t values = vld1_s16(rows.values + rows.starts[first + i] + k);
      const auto add = [&](const int16x8_t& of_row, int16x4_t value) {
        sums[i][0] = vmlal_s16(sums[i][0], vget_low_s16(of_row), value);
        sums[i][1] = vmlal_s16(sums[i][1], vget_high_s16(of_row), value);
      };
      add(wide[0], vdup_lane_s16(values, 0));
      add(wide[1], vdup_lane_s16(values, 1));
      add(wide[2], vdup_lane_s16(values, 2));
      add(wide[3], vdup_lane_s16(values, 3));
    }
    bytes += 4 * kGroupColumns;
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    float* const to = out + (first + i) * matrix.columns + column;
    for (std::size_t half = 0; half < 2; ++half) {
      const float32x4_t scale = vmulq_n_f32(vld1q_f32(matrix.steps + column + 4 * half),
                                            rows.factors[first + i]);
      vst1q_f32(to + 4 * half, vmulq_f32(vcvtq_f32_s32(sums[i][half]), scale));
    }
  }
}

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  constexpr std::size_t kTogether = 6;
  for (std::size_t column = 0; column < matrix.columns; column += 8) {
    std::size_t row = 0;
    for (; row + kTogether <= rows.count; row += kTogether) {
      multiply_columns<kTogether>(matrix, column, rows, row, out);
    }
    for (; row < rows.count; ++row) {
      multiply_columns<1>(matrix, column, rows, row, out);
    }
  }
}

}  // namespace

extern const KernelTable kNeonTable;
const KernelTable kNeonTable = {
    .name = "neon",
    .needs = kCpuNeon,
    .dot = dot,
    .scan = scan<Estimates<RowSum>>,
    .gather = gather<Estimates<RowSum>>,
    .sign_sums = sign_sums<GroupSums, 1>,
    .sums_reaching = sums_reaching<at_least>,
    .sum_high = sum_high,
    .sum_high_rows = row_by_row<sum_high>,
    .sum_nibbles = sum_nibbles,
    .at_least = at_least,
    .multiply = multiply,
};

}  // namespace vecall::kernels

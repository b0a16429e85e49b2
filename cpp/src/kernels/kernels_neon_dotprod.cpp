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

}  // namespace

extern const KernelTable kNeonDotprodTable;
const KernelTable kNeonDotprodTable = {
    .name = "neon_dotprod",
    .needs = kCpuNeon | kCpuNeonDotprod,
    .scan = scan<Estimates<RowSum>>,
    .gather = gather<Estimates<RowSum>>,
    .crc32c = crc32c,
};

}  // namespace vecall::kernels

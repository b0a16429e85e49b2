#include "kernels/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vecall::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::uint32_t kLeaf1EcxFma = 1U << 12;
constexpr std::uint32_t kLeaf1EcxOsxsave = 1U << 27;
constexpr std::uint32_t kLeaf1EcxAvx = 1U << 28;
constexpr std::uint32_t kLeaf7EbxAvx2 = 1U << 5;
constexpr std::uint32_t kXcr0SseAvx = 0b110;

// The register that says which vector state the operating system saves. A CPU can have
// AVX while the system does not keep its registers over a context switch.
std::uint32_t xcr0() noexcept {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

std::uint32_t cpu_features() noexcept {
  std::uint32_t features = kCpuBaseline;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return features;
  const bool has_avx = (ecx & kLeaf1EcxAvx) != 0 && (ecx & kLeaf1EcxOsxsave) != 0 &&
                       (xcr0() & kXcr0SseAvx) == kXcr0SseAvx;
  const bool has_fma = (ecx & kLeaf1EcxFma) != 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  if (has_avx && has_fma && (ebx & kLeaf7EbxAvx2) != 0) features |= kCpuAvx2Fma;
  return features;
}

#elif defined(__aarch64__)

// Advanced SIMD is part of the base architecture.
std::uint32_t cpu_features() noexcept {
  return kCpuNeon;
}

#else

std::uint32_t cpu_features() noexcept {
  return kCpuBaseline;
}

#endif

}  // namespace vecall::kernels

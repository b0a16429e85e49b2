#include "kernels/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif

namespace vecall::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::uint32_t kLeaf1EcxFma = 1U << 12;
constexpr std::uint32_t kLeaf1EcxOsxsave = 1U << 27;
constexpr std::uint32_t kLeaf1EcxAvx = 1U << 28;
constexpr std::uint32_t kLeaf7EbxAvx2 = 1U << 5;
constexpr std::uint32_t kLeaf7EbxAvx512f = 1U << 16;
constexpr std::uint32_t kLeaf7EbxAvx512dq = 1U << 17;
constexpr std::uint32_t kLeaf7EbxAvx512bw = 1U << 30;
constexpr std::uint32_t kLeaf7EbxAvx512vl = 1U << 31;
constexpr std::uint32_t kLeaf7EbxAvx512 =
    kLeaf7EbxAvx512f | kLeaf7EbxAvx512dq | kLeaf7EbxAvx512bw | kLeaf7EbxAvx512vl;
constexpr std::uint32_t kLeaf7EcxAvx512Vnni = 1U << 11;
constexpr std::uint32_t kXcr0SseAvx = 0x06;
constexpr std::uint32_t kXcr0Avx512 = 0xE6;  // and the masks and all of the ZMM state

constexpr bool has_all(std::uint32_t bits, std::uint32_t wanted) noexcept {
  return (bits & wanted) == wanted;
}

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
  const bool has_avx = has_all(ecx, kLeaf1EcxAvx | kLeaf1EcxOsxsave);
  const bool has_fma = has_all(ecx, kLeaf1EcxFma);
  const std::uint32_t saved = has_avx ? xcr0() : 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  if (has_all(saved, kXcr0SseAvx) && has_fma && has_all(ebx, kLeaf7EbxAvx2)) {
    features |= kCpuAvx2Fma;
  }
  if (has_all(saved, kXcr0Avx512) && has_all(ebx, kLeaf7EbxAvx512) &&
      has_all(ecx, kLeaf7EcxAvx512Vnni)) {
    features |= kCpuAvx512Vnni;
  }
  return features;
}

#elif defined(__aarch64__)

namespace {

// Dot products of bytes, and the CRC instructions that the same tier uses.
bool has_dotprod() noexcept {
#if defined(__linux__)
  constexpr unsigned long kWanted = HWCAP_ASIMDDP | HWCAP_CRC32;
  return (getauxval(AT_HWCAP) & kWanted) == kWanted;
#elif defined(__APPLE__)
  // Every Apple CPU of this architecture has the CRC instructions.
  int value = 0;
  std::size_t size = sizeof(value);
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, nullptr, 0) == 0 &&
         value != 0;
#elif defined(_WIN32)
  return IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE) != 0 &&
         IsProcessorFeaturePresent(PF_ARM_V8_CRC32_INSTRUCTIONS_AVAILABLE) != 0;
#else
  return false;
#endif
}

}  // namespace

// Advanced SIMD is part of the base architecture.
std::uint32_t cpu_features() noexcept {
  std::uint32_t features = kCpuNeon;
  if (has_dotprod()) features |= kCpuNeonDotprod;
  return features;
}

#else

std::uint32_t cpu_features() noexcept {
  return kCpuBaseline;
}

#endif

}  // namespace vecall::kernels

#pragma once

// What the CPU and the operating system let this process run.

#include <cstdint>

namespace vecall::kernels {

enum CpuFeature : std::uint32_t {
  kCpuBaseline = 0,
  kCpuAvx2Fma = 1U << 0,
  kCpuNeon = 1U << 1,
  kCpuAvx512Vnni = 1U << 2,  // with F, BW, DQ and VL
  kCpuNeonDotprod = 1U << 3,
};

std::uint32_t cpu_features() noexcept;

}  // namespace vecall::kernels

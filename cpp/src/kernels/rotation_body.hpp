#pragma once

// The random rotation of vectors/rotation.hpp, compiled once for each instruction set
// with that set's flags; include from kernel files only. Vectors of 16 floats in the
// compiler's own notation: it lowers them to what the target has, and each element sees
// the same additions in the same order everywhere.
//
// The transform is Walsh-Hadamard (Fino and Algazi, "Unified Matrix Treatment of the
// Fast Walsh-Hadamard Transform", 1976) in the first or the last power of two of the
// values, with random signs before and a mix of the two halves after it, as in Kac's
// walk.

#include <cstddef>
#include <cstring>

#include "vecall/assert.hpp"

namespace vecall::kernels {

namespace {

using Float16 = float __attribute__((vector_size(64)));
constexpr std::size_t kFloat16 = 16;

inline Float16 load16(const float* from) noexcept {
  Float16 value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline void store16(float* to, Float16 value) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

// Element i is that of i ^ kStep.
template <int kStep>
inline Float16 swapped(Float16 x) noexcept {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(x, x, 0 ^ kStep, 1 ^ kStep, 2 ^ kStep, 3 ^ kStep,
                                 4 ^ kStep, 5 ^ kStep, 6 ^ kStep, 7 ^ kStep, 8 ^ kStep,
                                 9 ^ kStep, 10 ^ kStep, 11 ^ kStep, 12 ^ kStep,
                                 13 ^ kStep, 14 ^ kStep, 15 ^ kStep);
#else
  using Places = int __attribute__((vector_size(64)));
  constexpr Places kPlaces = {0 ^ kStep,  1 ^ kStep,  2 ^ kStep,  3 ^ kStep,
                              4 ^ kStep,  5 ^ kStep,  6 ^ kStep,  7 ^ kStep,
                              8 ^ kStep,  9 ^ kStep,  10 ^ kStep, 11 ^ kStep,
                              12 ^ kStep, 13 ^ kStep, 14 ^ kStep, 15 ^ kStep};
  return __builtin_shuffle(x, kPlaces);
#endif
}

// Four butterfly stages among the 16 elements of one vector.
inline Float16 butterflies_within(Float16 x) noexcept {
  constexpr Float16 kSign8 = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
  constexpr Float16 kSign4 = {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1};
  constexpr Float16 kSign2 = {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1};
  constexpr Float16 kSign1 = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
  x = swapped<8>(x) + x * kSign8;
  x = swapped<4>(x) + x * kSign4;
  x = swapped<2>(x) + x * kSign2;
  x = swapped<1>(x) + x * kSign1;
  return x;
}

// kVectors * 16 values held in registers.
template <std::size_t kVectors>
inline void hadamard_in_registers(float* x) noexcept {
  Float16 v[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) v[i] = load16(x + i * kFloat16);
  for (std::size_t half = kVectors / 2; half > 0; half /= 2) {
    for (std::size_t begin = 0; begin < kVectors; begin += 2 * half) {
      for (std::size_t i = begin; i < begin + half; ++i) {
        const Float16 a = v[i];
        const Float16 b = v[i + half];
        v[i] = a + b;
        v[i + half] = a - b;
      }
    }
  }
  for (std::size_t i = 0; i < kVectors; ++i) {
    store16(x + i * kFloat16, butterflies_within(v[i]));
  }
}

inline void hadamard_small(float* x, std::size_t count) noexcept {
  for (std::size_t half = count / 2; half > 0; half /= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * half) {
      for (std::size_t i = begin; i < begin + half; ++i) {
        const float a = x[i];
        const float b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

// REQUIRES: count is a power of two.
inline void hadamard(float* x, std::size_t count) noexcept {
  VECALL_ASSERT(count != 0 && (count & (count - 1)) == 0);
  constexpr std::size_t kInRegisters = 256;
  for (std::size_t half = count / 2; half >= kInRegisters; half /= 2) {
    for (std::size_t begin = 0; begin < count; begin += 2 * half) {
      for (std::size_t i = begin; i < begin + half; i += kFloat16) {
        const Float16 a = load16(x + i);
        const Float16 b = load16(x + i + half);
        store16(x + i, a + b);
        store16(x + i + half, a - b);
      }
    }
  }
  if (count >= kInRegisters) {
    for (std::size_t i = 0; i < count; i += kInRegisters) {
      hadamard_in_registers<16>(x + i);
    }
  } else if (count == 128) {
    hadamard_in_registers<8>(x);
  } else if (count == 64) {
    hadamard_in_registers<4>(x);
  } else if (count == 32) {
    hadamard_in_registers<2>(x);
  } else if (count == 16) {
    hadamard_in_registers<1>(x);
  } else {
    hadamard_small(x, count);
  }
}

inline void multiply(float* x, const float* by, std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + kFloat16 <= count; i += kFloat16) {
    store16(x + i, load16(x + i) * load16(by + i));
  }
  for (; i < count; ++i) x[i] *= by[i];
}

inline void mix_halves(float* x, std::size_t dim) noexcept {
  constexpr float kRoot = 0.70710678F;
  const std::size_t half = dim / 2;
  float* other = x + half;
  std::size_t i = 0;
  for (; i + kFloat16 <= half; i += kFloat16) {
    const Float16 a = load16(x + i);
    const Float16 b = load16(other + i);
    store16(x + i, (a + b) * kRoot);
    store16(other + i, (a - b) * kRoot);
  }
  for (; i < half; ++i) {
    const float a = x[i];
    const float b = other[i];
    x[i] = (a + b) * kRoot;
    other[i] = (a - b) * kRoot;
  }
}

// `signs` holds one row of dim values a round, with the scale of that round's transform
// in them: two rounds where dim is a power of two, else four.
inline void rotate(float* x, std::size_t dim, const float* signs) noexcept {
  if (dim == 0) return;
  std::size_t block = 1;
  while (block * 2 <= dim) block *= 2;
  if (block == dim) {
    for (std::size_t round = 0; round < 2; ++round) {
      multiply(x, signs + round * dim, dim);
      hadamard(x, dim);
    }
    return;
  }
  for (std::size_t round = 0; round < 4; ++round) {
    multiply(x, signs + round * dim, dim);
    hadamard(round % 2 == 0 ? x : x + (dim - block), block);
    if (round < 3) mix_halves(x, dim);
  }
}

}  // namespace

}  // namespace vecall::kernels

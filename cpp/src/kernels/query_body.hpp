#pragma once

// The steps from a query to its integers, and how many estimates reach a value.
// Compiled once for each instruction set with that set's flags; include from kernel
// files only. In the compiler's own notation for vectors, as rotation_body.hpp: each
// element sees the same operations everywhere.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

using Lanes = float __attribute__((vector_size(64)));
using IntLanes = std::int32_t __attribute__((vector_size(64)));
using ByteLanes = std::int8_t __attribute__((vector_size(16)));
using ShortLanes = std::int16_t __attribute__((vector_size(32)));
using EightFloats = float __attribute__((vector_size(32)));
using EightDoubles = double __attribute__((vector_size(64)));
using SixteenDoubles = double __attribute__((vector_size(128)));
constexpr std::size_t kQueryLanes = 16;
constexpr std::size_t kWideLanes = 8;

double squares(const float* x, std::size_t count) noexcept {
  EightDoubles sums = {};
  std::size_t i = 0;
  for (; i + kWideLanes <= count; i += kWideLanes) {
    EightFloats narrow;
    std::memcpy(&narrow, x + i, sizeof(narrow));
    const EightDoubles wide = __builtin_convertvector(narrow, EightDoubles);
    sums += wide * wide;
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * x[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
         ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void scale(const float* x, std::size_t count, double factor, float* out) noexcept {
  std::size_t i = 0;
  for (; i + kWideLanes <= count; i += kWideLanes) {
    EightFloats narrow;
    std::memcpy(&narrow, x + i, sizeof(narrow));
    const EightDoubles wide = __builtin_convertvector(narrow, EightDoubles) * factor;
    narrow = __builtin_convertvector(wide, EightFloats);
    std::memcpy(out + i, &narrow, sizeof(narrow));
  }
  for (; i < count; ++i) out[i] = static_cast<float>(x[i] * factor);
}

QuantisedQuery quantise(const float* x, std::size_t width, std::int8_t* q8,
                        std::int16_t* q16) noexcept {
  Lanes most = {};
  for (std::size_t i = 0; i < width; i += kQueryLanes) {
    Lanes value;
    std::memcpy(&value, x + i, sizeof(value));
    const Lanes magnitude = value < 0.0F ? -value : value;
    most = magnitude > most ? magnitude : most;
  }
  float largest = 1e-30F;  // a query of zeros has no other scale
  for (std::size_t lane = 0; lane < kQueryLanes; ++lane) {
    largest = most[lane] > largest ? most[lane] : largest;
  }
  const float scale8 = 127.0F / largest;
  const float scale16 = 32'512.0F / largest;
  IntLanes sums8 = {};
  IntLanes sums16 = {};
  SixteenDoubles along8 = {};
  SixteenDoubles along16 = {};
  for (std::size_t i = 0; i < width; i += kQueryLanes) {
    Lanes value;
    std::memcpy(&value, x + i, sizeof(value));
    // Shifted to be positive, where cutting off rounds to the nearest.
    const IntLanes eight =
        __builtin_convertvector(value * scale8 + 128.5F, IntLanes) - 128;
    const IntLanes sixteen =
        __builtin_convertvector(value * scale16 + 32'768.5F, IntLanes) - 32'768;
    const ByteLanes bytes = __builtin_convertvector(eight, ByteLanes);
    const ShortLanes shorts = __builtin_convertvector(sixteen, ShortLanes);
    std::memcpy(q8 + i, &bytes, sizeof(bytes));
    std::memcpy(q16 + i, &shorts, sizeof(shorts));
    sums8 += eight;
    sums16 += sixteen;
    const SixteenDoubles wide = __builtin_convertvector(value, SixteenDoubles);
    along8 += wide * __builtin_convertvector(eight, SixteenDoubles);
    along16 += wide * __builtin_convertvector(sixteen, SixteenDoubles);
  }
  QuantisedQuery query{largest, 0, 0, 0, 0};
  for (std::size_t lane = 0; lane < kQueryLanes; ++lane) {
    query.sum8 += sums8[lane];
    query.sum16 += sums16[lane];
    query.along8 += along8[lane];
    query.along16 += along16[lane];
  }
  return query;
}

std::size_t reaching(const float* values, std::size_t count, float threshold) noexcept {
  IntLanes found = {};
  std::size_t i = 0;
  for (; i + kQueryLanes <= count; i += kQueryLanes) {
    Lanes value;
    std::memcpy(&value, values + i, sizeof(value));
    found -= value >= threshold;  // a true lane is -1
  }
  // Halved twice, since most counts are short.
  std::int32_t lanes[kQueryLanes];
  std::memcpy(lanes, &found, sizeof(lanes));
  using FourInts = std::int32_t __attribute__((vector_size(16)));
  FourInts four = {};
  for (std::size_t part = 0; part < kQueryLanes; part += 4) {
    FourInts some;
    std::memcpy(&some, lanes + part, sizeof(some));
    four += some;
  }
  std::int32_t total = (four[0] + four[1]) + (four[2] + four[3]);
  for (; i < count; ++i) total += values[i] >= threshold ? 1 : 0;
  return static_cast<std::size_t>(total);
}

// One block of two nibbles a byte.
template <class Bytes, class Signed>
std::int32_t centre_block(const std::uint8_t* nibbles, std::int8_t* out) noexcept {
  Bytes both;
  std::memcpy(&both, nibbles, sizeof(both));
  // 16 * nibble - 120 lies in [-120, 120].
  const auto first = reinterpret_cast<Signed>((both << 4) - 120);
  const auto second = reinterpret_cast<Signed>((both & 0xF0) - 120);
  std::memcpy(out, &first, sizeof(first));
  std::memcpy(out + sizeof(first), &second, sizeof(second));
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < 2 * sizeof(Bytes); ++i) sum += out[i];
  return sum;
}

std::int32_t centre(const std::uint8_t* nibbles, std::size_t width,
                    std::int8_t* out) noexcept {
  using Line = std::uint8_t __attribute__((vector_size(64)));
  using SignedLine = std::int8_t __attribute__((vector_size(64)));
  using HalfLine = std::uint8_t __attribute__((vector_size(32)));
  using SignedHalfLine = std::int8_t __attribute__((vector_size(32)));
  std::int32_t sum = 0;
  std::size_t at = 0;
  for (; at + 128 <= width; at += 128)
    sum += centre_block<Line, SignedLine>(nibbles + at / 2, out + at);
  if (at < width)
    sum += centre_block<HalfLine, SignedHalfLine>(nibbles + at / 2, out + at);
  return sum;
}

}  // namespace

}  // namespace vecall::kernels

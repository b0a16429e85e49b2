#pragma once

// The steps of the encoder between two matrices. Compiled once for each instruction set
// with that set's flags; include from kernel files only. In the compiler's own notation
// for vectors, as query_body.hpp: each element sees the same operations everywhere.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

namespace steps {

using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
using Shorts = std::int16_t __attribute__((vector_size(32)));
using Bytes = std::uint8_t __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 16;

template <class Value, class Element>
[[gnu::always_inline]] inline Value load_as(const Element* from) noexcept {
  Value value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

[[gnu::always_inline]] inline void store(float* to, Floats value) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

// The lanes are added in halves.
[[gnu::always_inline]] inline float sum_of(Floats x) noexcept {
  float lanes[kLanes];
  store(lanes, x);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

inline void unpack(const std::uint8_t* bytes, std::size_t count, float step,
                   float least, float* out) noexcept {
  for (std::size_t i = 0; i < count; i += kLanes) {
    const auto numbers = __builtin_convertvector(load_as<Bytes>(bytes + i), Ints);
    store(out + i, __builtin_convertvector(numbers, Floats) * step + least);
  }
}

struct Moments {
  float mean;
  float scale;  // 1 through the deviation
};

[[gnu::always_inline]] inline Moments moments_of(const float* x, std::size_t count,
                                                 float epsilon) noexcept {
  const auto size = static_cast<float>(count);
  Floats sum = {};
  for (std::size_t i = 0; i < count; i += kLanes) sum += load_as<Floats>(x + i);
  const float mean = sum_of(sum) / size;
  Floats squares = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats centred = load_as<Floats>(x + i) - mean;
    squares += centred * centred;
  }
  return {mean, 1.0F / std::sqrt(sum_of(squares) / size + epsilon)};
}

inline void normalise(float* x, std::size_t count, const float* gain, const float* bias,
                      float epsilon) noexcept {
  const auto [mean, scale] = moments_of(x, count, epsilon);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats unit = (load_as<Floats>(x + i) - mean) * scale;
    store(x + i, unit * load_as<Floats>(gain + i) + load_as<Floats>(bias + i));
  }
}

inline void add_normalised(const float* x, std::size_t count, float epsilon,
                           float* sums) noexcept {
  const auto [mean, scale] = moments_of(x, count, epsilon);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats unit = (load_as<Floats>(x + i) - mean) * scale;
    store(sums + i, load_as<Floats>(sums + i) + unit);
  }
}

inline void rectify(const float* x, const float* bias, const float* base,
                    std::size_t count, float* out) noexcept {
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats value = load_as<Floats>(x + i) + load_as<Floats>(bias + i);
    const Floats zero = {};
    store(out + i, (value > zero ? value : zero) + load_as<Floats>(base + i));
  }
}

inline void add(const float* x, std::size_t count, float* sums) noexcept {
  for (std::size_t i = 0; i < count; i += kLanes) {
    store(sums + i, load_as<Floats>(sums + i) + load_as<Floats>(x + i));
  }
}

// e^x for -87 <= x <= 0, with an error of some 1e-7 of it: x is split into a multiple
// of log(2) and a rest, whose exponential is a polynomial (Moshier, Cephes, expf).
[[gnu::always_inline]] inline Floats exponential(Floats x) noexcept {
  const Ints whole = __builtin_convertvector(x * 1.44269504F - 0.5F, Ints);
  const Floats turns = __builtin_convertvector(whole, Floats);
  const Floats rest = (x - turns * 0.693359375F) + turns * 2.12194440e-4F;
  Floats power = {};
  power += 1.9875691500e-4F;
  power = power * rest + 1.3981999507e-3F;
  power = power * rest + 8.3334519073e-3F;
  power = power * rest + 4.1665795894e-2F;
  power = power * rest + 1.6666665459e-1F;
  power = power * rest + 5.0000001201e-1F;
  power = power * rest * rest + rest + 1.0F;
  const Ints scale = (whole + 127) << 23;
  return power * load_as<Floats>(&scale);
}

inline void tanh(float* x, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i += kLanes) {
    const auto value = load_as<Floats>(x + i);
    const Floats zero = {};
    const Floats most = zero + 20.0F;  // from there on tanh is 1 in float
    Floats magnitude = value < zero ? -value : value;
    magnitude = magnitude < most ? magnitude : most;
    const Floats decay = exponential(-2.0F * magnitude);
    const Floats result = (1.0F - decay) / (1.0F + decay);
    store(x + i, value < zero ? -result : result);
  }
}

inline float largest(const float* x, std::size_t count) noexcept {
  Floats most = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    const auto value = load_as<Floats>(x + i);
    const Floats zero = {};
    const Floats magnitude = value < zero ? -value : value;
    most = magnitude > most ? magnitude : most;
  }
  float result = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    result = most[lane] > result ? most[lane] : result;
  }
  return result;
}

inline void round(const float* x, std::size_t count, float factor,
                  std::int16_t* out) noexcept {
  for (std::size_t i = 0; i < count; i += kLanes) {
    // Shifted to be positive, where cutting off rounds to the nearest.
    const Floats shifted = load_as<Floats>(x + i) * factor + 8'192.5F;
    const Ints numbers = __builtin_convertvector(shifted, Ints) - 8'192;
    const auto narrow = __builtin_convertvector(numbers, Shorts);
    std::memcpy(out + i, &narrow, sizeof(narrow));
  }
}

}  // namespace steps

constexpr EncoderSteps kEncoderSteps = {
    .unpack = steps::unpack,
    .normalise = steps::normalise,
    .add_normalised = steps::add_normalised,
    .rectify = steps::rectify,
    .add = steps::add,
    .tanh = steps::tanh,
    .largest = steps::largest,
    .round = steps::round,
};

}  // namespace

}  // namespace vecall::kernels

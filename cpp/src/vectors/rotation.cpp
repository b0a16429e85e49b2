#include "vectors/rotation.hpp"

#include <bit>
#include <cmath>

#include "kernels/dispatch.hpp"

namespace vecall {

namespace {

// Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014.
std::uint64_t splitmix64(std::uint64_t& state) noexcept {
  state += 0x9E37'79B9'7F4A'7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Rotation::Rotation(std::size_t dim, std::uint64_t seed) : dim_(dim) {
  if (dim == 0) return;
  const std::size_t block = std::bit_floor(dim);
  const std::size_t rounds = block == dim ? 2 : 4;
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
  signs_.resize(rounds * dim);
  std::uint64_t state = seed;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t begin = round % 2 == 0 ? 0 : dim - block;
    for (std::size_t i = 0; i < dim; ++i) {
      const float sign = (splitmix64(state) >> 63) != 0 ? -1.0F : 1.0F;
      const bool transformed = i >= begin && i < begin + block;
      signs_[round * dim + i] = transformed ? sign * scale : sign;
    }
  }
}

void Rotation::apply(float* x) const noexcept {
  kernels::active().rotate(x, dim_, signs_.data());
}

}  // namespace vecall

#pragma once

// A random rotation that is the same for all vectors of one length and one seed, on
// every machine.
// It spreads what stands out in single dimensions over all of them, so that a few bits
// a dimension describe any vector about equally well, and changes no cosine.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecall {

// The seed where none was given. Part of a snapshot: codes of another seed are codes of
// other vectors. Who knows the seed can make vectors whose codes are as wrong as codes
// can be, so vectors of strangers want a seed that is secret.
inline constexpr std::uint64_t kRotationSeed = 0x7665'6361'6c6c'0001ULL;

class Rotation {
 public:
  Rotation(std::size_t dim, std::uint64_t seed);

  // Rotates x (dim,) in place.
  void apply(float* x) const noexcept;
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return signs_.capacity() * sizeof(float);
  }

 private:
  std::size_t dim_;
  std::vector<float> signs_;  // (rounds, dim), see kernels/rotation_body.hpp
};

}  // namespace vecall

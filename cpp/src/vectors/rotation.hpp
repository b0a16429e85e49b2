#pragma once

// A random rotation that is the same for all vectors of one length, on every machine.
// It spreads what stands out in single dimensions over all of them, so that a few bits
// a dimension describe any vector about equally well, and changes no cosine.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecall {

// Part of the snapshot format: codes of another seed are codes of other vectors.
inline constexpr std::uint64_t kRotationSeed = 0x7665'6361'6c6c'0001ULL;

class Rotation {
 public:
  explicit Rotation(std::size_t dim);

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

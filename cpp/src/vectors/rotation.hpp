#pragma once

// A random rotation that is the same for all vectors of one length and one seed, on
// every machine. Immutable after construction: all threads share it. It spreads what
// stands out in single dimensions over all of them, so that a few bits a dimension
// describe any vector about equally well, and changes no cosine.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecall {

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

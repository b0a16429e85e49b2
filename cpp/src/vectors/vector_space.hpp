#pragma once

// What all vectors of an engine have in common: their length, how many bits of each
// value stay in memory, and the rotation that is applied before they are taken.
// Immutable after construction, so it is read without a lock.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"
#include "vecall/options.hpp"
#include "vecall/types.hpp"
#include "vectors/rotation.hpp"

namespace vecall {

class VectorSpace {
 public:
  VectorSpace(std::size_t dim, Codec codec, bool keep_float32,
              std::uint64_t seed = kRotationSeed)
      : dim_(dim),
        codec_(codec),
        keep_float32_(dim > 0 && (keep_float32 || dim <= kShortDim)),
        seed_(seed),
        rotation_(dim, seed) {}

  [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
  // dim rounded up to whole blocks of a plane; values beyond dim are padding.
  [[nodiscard]] std::size_t width() const noexcept { return kernels::width_of(dim_); }
  [[nodiscard]] Codec codec() const noexcept { return codec_; }
  [[nodiscard]] bool has_low() const noexcept { return codec_ != Codec::kInt4; }
  [[nodiscard]] bool has_rest() const noexcept {
    return codec_ == Codec::kInt4Plus8Plus4;
  }
  [[nodiscard]] bool keeps_float32() const noexcept { return keep_float32_; }
  // Short vectors are always scored from float32: rounding shows more in the cosine of
  // few values, and their planes are mostly padding.
  [[nodiscard]] bool is_short() const noexcept { return dim_ <= kShortDim; }
  // Whether one bit a value rules out enough rows to be kept beside whole chunks, and
  // its sums are as small as kernels want them.
  [[nodiscard]] bool has_signs() const noexcept {
    return dim_ >= kLeastDimOfSigns && width() <= 4096;
  }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] const Rotation& rotation() const noexcept { return rotation_; }

  // Bytes of one row of each plane.
  [[nodiscard]] std::size_t high_bytes() const noexcept { return width() / 2; }
  [[nodiscard]] std::size_t low_bytes() const noexcept {
    return has_low() ? width() : 0;
  }
  [[nodiscard]] std::size_t rest_bytes() const noexcept {
    return has_rest() ? width() / 2 : 0;
  }
  [[nodiscard]] std::size_t float_bytes() const noexcept {
    return keep_float32_ ? (dim_ * sizeof(float) + 31) / 32 * 32 : 0;
  }

 private:
  static constexpr std::size_t kShortDim = 32;
  static constexpr std::size_t kLeastDimOfSigns = 128;

  std::size_t dim_;
  Codec codec_;
  bool keep_float32_;
  std::uint64_t seed_;  // of the rotation
  Rotation rotation_;
};

}  // namespace vecall

#pragma once

// Vectors as codes. A rotated unit vector x is scaled so that its largest value is
// 32,512 and rounded to 16-bit numbers u = round(x * 32512 / max|x|) + 32768, stored as
// planes: the top 4 bits (`high`), the next 8 (`low`) and, optionally, the last 4
// (`rest`). Scans and graphs read the high plane alone; what they find is scored again
// from all planes that are stored. The idea of a nested code is that of LVQ
// (Aguerrebere et al., "Similarity search in the blink of an eye with compressed
// indices", 2023), the unbiased factor that of RaBitQ (Gao and Long, 2024).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "vecall/assert.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

// One standard deviation of what rounding to whole steps takes from a value.
inline constexpr float kEstimateDeviation = 0.2886751F;

// Where the codes of one row lie; planes that are not stored are null.
struct RowCodes {
  std::uint8_t* high;
  std::uint8_t* low;
  std::uint8_t* rest;
  float* floats;
  float* factor;  // estimate = factor * dot(high - 7.5, query)
  float* step;    // cosine = step * dot(code, query)
};

// Rounds a rotated vector (width,) to codes (width,) and to those planes that are not
// null.
void make_planes(const VectorSpace& space, const float* rotated, std::uint16_t* codes,
                 const RowCodes& row) noexcept;

// Encodes vectors of norm 1. Keeps its scratch; one a thread.
class RowEncoder {
 public:
  // Allocates what encode() needs.
  void prepare(const VectorSpace& space);
  // REQUIRES: prepared; unit has norm 1 and space.dim() values.
  void encode(const VectorSpace& space, std::span<const float> unit,
              RowCodes row) noexcept;

 private:
  std::vector<float> rotated_;
  std::vector<std::uint16_t> codes_;
};

// A query in the forms that the planes are compared with. Keeps its memory between
// queries; one a thread.
class EncodedQuery {
 public:
  // REQUIRES: unit has norm 1 and space.dim() values; it is borrowed, not copied.
  void encode(const VectorSpace& space, std::span<const float> unit);
  // A row of the partition as the query, for estimates alone: what a graph is built by.
  void from_row(const VectorSpace& space, const std::uint8_t* high, float factor);

  // For estimates from the high plane.
  [[nodiscard]] const kernels::CodeQuery& code() const noexcept { return code_; }
  // REQUIRES for both: encode(). The vector (dim,), and rotated (width,).
  [[nodiscard]] const float* unit() const noexcept {
    VECALL_ASSERT(!unit_.empty());
    return unit_.data();
  }
  [[nodiscard]] const float* rotated() const noexcept {
    VECALL_ASSERT(!rotated_.empty());
    return rotated_.data();
  }
  // The length of what rounding to 8 bits took from the query, of 1.
  [[nodiscard]] float rounding() const noexcept { return rounding_; }
  // The cosine from all planes of a row; rounding may put it beyond 1, and rows are
  // ranked by it as it is.
  [[nodiscard]] double cosine(const VectorSpace& space, const std::uint8_t* high,
                              const std::uint8_t* low, const std::uint8_t* rest,
                              float factor, float step) const noexcept;
  // The same of `count` rows whose planes and steps lie one after another. REQUIRES:
  // the space has a low plane.
  void cosines(const VectorSpace& space, const std::uint8_t* high,
               const std::uint8_t* low, const std::uint8_t* rest, const float* steps,
               std::size_t count, double* out) const noexcept;
  // The cosine from the float32 vector itself, likewise.
  [[nodiscard]] float exact_cosine(const float* floats) const noexcept;

 private:
  void quantise(const VectorSpace& space);

  std::span<const float> unit_;
  std::vector<float> rotated_;
  std::vector<std::int8_t> q8_;
  std::vector<std::int16_t> q16_;
  kernels::CodeQuery code_;
  double step16_ = 0;
  float rounding_ = 0;
  std::int64_t sum16_ = 0;
};

}  // namespace vecall

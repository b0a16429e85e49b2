#pragma once

// A query's vector as the row that it would be: to tell which rows hold that vector.
// Two equal vectors of float32 give the same bits; a multiple of one may not.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vectors/row_codes.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

// Of what tells the row's vector from others: of one line of its codes, or of all of a
// short vector.
[[nodiscard]] std::uint32_t hash_of_row(const VectorSpace& space,
                                        const RowCodes& row) noexcept;

// Keeps its memory between queries; one a thread.
class RowImage {
 public:
  // REQUIRES: the query is of a vector; it and the space outlive the image's use.
  void make(const VectorSpace& space, const EncodedQuery& query);
  [[nodiscard]] std::uint32_t hash() const noexcept { return hash_; }
  // Whether a row has the same codes, and of a short vector the same numbers.
  [[nodiscard]] bool is(const RowCodes& row) const noexcept;

 private:
  const VectorSpace* space_ = nullptr;
  const float* floats_ = nullptr;  // of a short vector
  std::uint32_t hash_ = 0;
  std::vector<std::uint16_t> codes_;
  std::vector<std::uint8_t> planes_;
  RowCodes row_ = {};
};

}  // namespace vecall

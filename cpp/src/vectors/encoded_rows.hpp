#pragma once

// The codes of some vectors in one block, made before any lock is taken: a row table
// copies them in. Immutable after construction.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "vectors/row_codes.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

class EncodedRows {
 public:
  // Encodes the rows of a matrix (wanted.size(), space.dim()) of any norm; those that
  // are not wanted are not looked at. Reads each value once, so a caller who changes
  // the matrix meanwhile cannot slip a bad value past the check. Throws
  // InvalidArgumentError for NaN, Inf or a zero vector. `space` must outlive the rows.
  EncodedRows(const VectorSpace& space, std::span<const float> matrix,
              std::span<const std::uint8_t> wanted);

  // REQUIRES: the row was wanted.
  [[nodiscard]] RowCodes codes(std::size_t row) const noexcept;

 private:
  const VectorSpace* space_;
  std::size_t row_bytes_;
  std::unique_ptr<std::byte[]> bytes_;  // high | low | rest | floats | factor | step
};

}  // namespace vecall

#pragma once

// A batch of rows, checked and encoded: all of an addition that needs no lock, and the
// one place that says which batches are refused.

#include <cstddef>
#include <vector>

#include "rows/row_space.hpp"
#include "vecall/types.hpp"
#include "vectors/encoded_rows.hpp"

namespace vecall {

class EncodedBatch {
 public:
  // Borrows both. Throws InvalidArgumentError where sizes do not agree, offsets are out
  // of order or a vector has NaN, Inf or zeros alone, DimensionError for vectors of
  // another length.
  EncodedBatch(const RowSpace& space, const RowBatch& batch);

  [[nodiscard]] const RowBatch& batch() const noexcept { return batch_; }
  // The rows to add in their order: of those with one id the last.
  [[nodiscard]] const std::vector<std::size_t>& rows() const noexcept { return rows_; }
  [[nodiscard]] bool has_words(std::size_t row) const noexcept {
    return !batch_.offsets.empty() && batch_.offsets[row] != batch_.offsets[row + 1];
  }
  [[nodiscard]] bool has_vector(std::size_t row) const noexcept {
    return !batch_.has_vector.empty() && batch_.has_vector[row] != 0;
  }
  // REQUIRES: has_vector(row).
  [[nodiscard]] RowCodes codes(std::size_t row) const noexcept {
    return codes_.codes(row);
  }

 private:
  const RowBatch& batch_;
  std::vector<std::size_t> rows_;
  EncodedRows codes_;
};

}  // namespace vecall

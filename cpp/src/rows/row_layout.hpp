#pragma once

// Where each column of a chunk begins. A chunk is one block of memory for `capacity`
// rows, one column after another, wide elements first so that each is aligned:
//
//   high | low | rest | floats | id | time | position | session previous next author
//   kind factor step | flags
//
// Columns that a partition does not need take no room: planes of another codec, vectors
// of an engine of words, sessions and authors of an index of bare vectors.

#include <cstddef>
#include <cstdint>

#include "vecall/types.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

// Rows of a whole chunk; what other tables hold by slot comes in chunks of as many.
inline constexpr std::size_t kChunkRows = 4096;

class RowLayout {
 public:
  RowLayout(const VectorSpace& space, bool has_meta) noexcept;

  enum Column : std::uint8_t {
    kHigh,
    kLow,
    kRest,
    kFloats,
    kId,
    kTime,
    kPosition,
    kSession,
    kPrevious,
    kNext,
    kAuthor,
    kKind,
    kFactor,
    kStep,
    kFlags,
    kColumns
  };

  // Bytes that one row takes in a column.
  [[nodiscard]] std::size_t bytes(Column column) const noexcept {
    return begin_[column + 1] - begin_[column];
  }
  // Where the column of a chunk begins.
  [[nodiscard]] std::size_t begin(Column column, std::size_t capacity) const noexcept {
    return begin_[column] * capacity;
  }
  [[nodiscard]] std::size_t row_bytes() const noexcept { return begin_[kColumns]; }

 private:
  // The bytes that one row takes in the columns before.
  std::uint32_t begin_[kColumns + 1] = {};
};

}  // namespace vecall

#pragma once

// What all row tables of an engine share: the vectors' form and the two layouts of a
// chunk, for bare vectors and for rows with times, sessions and authors. Immutable
// after construction, so it is read without a lock.

#include <cstddef>

#include "rows/row_layout.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

class RowSpace : public VectorSpace {
 public:
  RowSpace(std::size_t dim, Codec codec, bool keep_float32,
           std::uint64_t seed = kRotationSeed)
      : VectorSpace(dim, codec, keep_float32, seed),
        bare_(*this, false),
        full_(*this, true) {}

  [[nodiscard]] const RowLayout& layout(bool has_meta) const noexcept {
    return has_meta ? full_ : bare_;
  }

 private:
  RowLayout bare_;
  RowLayout full_;
};

}  // namespace vecall

#include "rows/row_layout.hpp"

namespace vecall {

RowLayout::RowLayout(const VectorSpace& space, bool has_meta) noexcept {
  const auto meta = [has_meta](std::size_t bytes) { return has_meta ? bytes : 0; };
  const auto vector = [&space](std::size_t bytes) {
    return space.dim() == 0 ? 0 : bytes;
  };
  const std::size_t bytes[kColumns] = {
      space.high_bytes(),           // kHigh
      space.low_bytes(),            // kLow
      space.rest_bytes(),           // kRest
      space.float_bytes(),          // kFloats
      sizeof(RowId),                // kId
      meta(sizeof(Micros)),         // kTime
      meta(sizeof(double)),         // kPosition
      meta(sizeof(std::uint32_t)),  // kSession
      meta(sizeof(Slot)),           // kPrevious
      meta(sizeof(Slot)),           // kNext
      meta(sizeof(std::uint32_t)),  // kAuthor
      meta(sizeof(std::uint32_t)),  // kKind
      vector(sizeof(float)),        // kFactor
      vector(sizeof(float)),        // kStep
      sizeof(std::uint8_t),         // kFlags
  };
  begin_[0] = 0;
  for (std::size_t i = 0; i < kColumns; ++i) {
    begin_[i + 1] = begin_[i] + static_cast<std::uint32_t>(bytes[i]);
  }
}

}  // namespace vecall

#include "vectors/row_image.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kHashedBytes = 64;

bool by_floats(const VectorSpace& space) noexcept {
  return space.is_short() && space.keeps_float32();
}

std::uint32_t hash_of(const VectorSpace& space, const std::uint8_t* high,
                      const std::uint8_t* low, const float* floats) noexcept {
  const auto crc32c = kernels::active().crc32c;
  if (by_floats(space)) {
    return crc32c(0, reinterpret_cast<const std::uint8_t*>(floats),
                  space.dim() * sizeof(float));
  }
  // Rotated, so that any difference shows in any part.
  const std::size_t bytes = low == nullptr ? space.high_bytes() : space.low_bytes();
  return crc32c(0, low == nullptr ? high : low, std::min(bytes, kHashedBytes));
}

}  // namespace

std::uint32_t hash_of_row(const VectorSpace& space, const RowCodes& row) noexcept {
  return hash_of(space, row.high, row.low, row.floats);
}

void RowImage::make(const VectorSpace& space, const EncodedQuery& query) {
  VECALL_ASSERT(space.dim() > 0);
  space_ = &space;
  if (by_floats(space)) {
    floats_ = query.unit();
  } else {
    codes_.resize(space.width());
    planes_.resize(space.high_bytes() + space.low_bytes() + space.rest_bytes());
    row_.high = planes_.data();
    row_.low = space.has_low() ? row_.high + space.high_bytes() : nullptr;
    row_.rest = space.has_rest() ? row_.low + space.low_bytes() : nullptr;
    make_planes(space, query.rotated(), codes_.data(), row_);
  }
  hash_ = hash_of(space, row_.high, row_.low, floats_);
}

bool RowImage::is(const RowCodes& row) const noexcept {
  const VectorSpace& space = *space_;
  if (by_floats(space)) {
    return std::memcmp(row.floats, floats_, space.dim() * sizeof(float)) == 0;
  }
  return std::memcmp(row.high, row_.high, space.high_bytes()) == 0 &&
         (row_.low == nullptr ||
          std::memcmp(row.low, row_.low, space.low_bytes()) == 0) &&
         (row_.rest == nullptr ||
          std::memcmp(row.rest, row_.rest, space.rest_bytes()) == 0);
}

}  // namespace vecall

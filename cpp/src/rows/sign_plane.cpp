#include "rows/sign_plane.hpp"

#include "rows/pages.hpp"
#include "vecall/assert.hpp"
#include "vectors/sign_codes.hpp"

namespace vecall {

namespace {

constexpr std::size_t kFactorBytes = kChunkRows * sizeof(float);

std::size_t row_bytes(const VectorSpace& space) noexcept {
  return space.width() / 8;
}

std::size_t chunk_bytes(const VectorSpace& space) noexcept {
  return kFactorBytes + kChunkRows * row_bytes(space);
}

}  // namespace

void SignPlane::add_chunk() {
  chunks_.reserve(chunks_.size() + 1);
  chunks_.emplace_back(
      static_cast<std::uint8_t*>(allocate_pages(chunk_bytes(*space_))));
}

void SignPlane::put(Slot slot, const std::uint8_t* high, float factor) noexcept {
  VECALL_ASSERT(has(slot));
  put_signs(*space_, high, slot % kernels::kSignGroup, groups(slot));
  factors(slot)[0] = sign_factor(*space_, high, factor);
}

std::uint8_t* SignPlane::groups(Slot slot) const noexcept {
  const std::size_t before = slot % kChunkRows / kernels::kSignGroup;
  return chunks_[slot / kChunkRows].get() + kFactorBytes +
         before * kernels::kSignGroup * row_bytes(*space_);
}

std::size_t SignPlane::nbytes() const noexcept {
  return sizeof(*this) + chunks_.capacity() * sizeof(chunks_.front()) +
         chunks_.size() * chunk_bytes(*space_);
}

}  // namespace vecall

#include "rows/sign_plane.hpp"

#include <new>

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
  chunks_.emplace_back(allocate_pages(chunk_bytes(*space_)));
}

bool SignPlane::make(Slot first, std::size_t count, const std::uint8_t* high,
                     const float* factors) noexcept {
  try {
    Chunk made(allocate_pages(chunk_bytes(*space_)));
    for (std::size_t row = 0; row < count; ++row) {
      put(first + static_cast<Slot>(row), high + row * space_->high_bytes(),
          factors[row], made.get());
    }
    chunks_[first / kChunkRows].take(made);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void SignPlane::put(Slot slot, const std::uint8_t* high, float factor) noexcept {
  VECALL_ASSERT(has(slot));
  put(slot, high, factor, chunks_[slot / kChunkRows].get());
}

void SignPlane::put(Slot slot, const std::uint8_t* high, float factor,
                    std::uint8_t* chunk) noexcept {
  const std::size_t row = slot % kChunkRows;
  const std::size_t in_group = row % kernels::kSignGroup;
  std::uint8_t* group = chunk + kFactorBytes + (row - in_group) * row_bytes(*space_);
  put_signs(*space_, high, in_group, group);
  reinterpret_cast<float*>(chunk)[row] = sign_factor(*space_, high, factor);
}

std::uint8_t* SignPlane::groups(Slot slot) const noexcept {
  const std::size_t before = slot % kChunkRows / kernels::kSignGroup;
  return chunks_[slot / kChunkRows].get() + kFactorBytes +
         before * kernels::kSignGroup * row_bytes(*space_);
}

std::size_t SignPlane::nbytes() const noexcept {
  std::size_t made = 0;
  for (const Chunk& chunk : chunks_) made += chunk.get() == nullptr ? 0 : 1;
  return sizeof(*this) + chunks_.capacity() * sizeof(chunks_.front()) +
         made * chunk_bytes(*space_);
}

}  // namespace vecall

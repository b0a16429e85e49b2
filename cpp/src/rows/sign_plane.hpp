#pragma once

// The signs of the rows of whole chunks (vectors/sign_codes.hpp), derived from their
// high planes: no snapshot holds them. Not thread-safe: like the row table that has it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rows/pages.hpp"
#include "rows/row_layout.hpp"
#include "vecall/types.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

class SignPlane {
 public:
  // `space` must outlive the plane.
  explicit SignPlane(const VectorSpace& space) : space_(&space) {}

  // Adds a chunk. Strong guarantee.
  void add_chunk();
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] bool has(Slot slot) const noexcept {
    return slot / kChunkRows < chunks_.size();
  }

  // REQUIRES for the rest: has().
  // Takes the signs of a row; one with the factor 0 has none that count.
  void put(Slot slot, const std::uint8_t* high, float factor) noexcept;
  void clear(Slot slot) noexcept { factors(slot)[0] = 0.0F; }
  // The groups from that of `slot` on, to the chunk's end.
  [[nodiscard]] std::uint8_t* groups(Slot slot) const noexcept;
  // Of the rows from `slot` on, likewise.
  [[nodiscard]] float* factors(Slot slot) const noexcept {
    auto* all = reinterpret_cast<float*>(chunks_[slot / kChunkRows].get());
    return all + slot % kChunkRows;
  }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  struct FreePages {
    void operator()(std::uint8_t* chunk) const noexcept { free_pages(chunk); }
  };

  const VectorSpace* space_;
  // (kChunkRows,) factors, then the groups.
  std::vector<std::unique_ptr<std::uint8_t, FreePages>> chunks_;
};

}  // namespace vecall

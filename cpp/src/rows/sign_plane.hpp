#pragma once

// The signs of the rows of whole chunks (vectors/sign_codes.hpp), derived from their
// high planes: no snapshot holds them. Not thread-safe: like the row table that has it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allocation/pages.hpp"
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
  // Makes place for chunks that make() fills when they are needed.
  void add_places(std::size_t chunks) { chunks_.resize(chunks); }
  // Fills the chunk of the `count` rows from `first` on, unless it is; any number of
  // threads may. False where there is no memory for it.
  bool make(Slot first, std::size_t count, const std::uint8_t* high,
            const float* factors) noexcept;
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_.size(); }
  [[nodiscard]] bool has(Slot slot) const noexcept {
    return slot / kChunkRows < chunks_.size() &&
           chunks_[slot / kChunkRows].get() != nullptr;
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
  // (kChunkRows,) factors, then the groups; null until they are made.
  class Chunk {
   public:
    Chunk() = default;
    explicit Chunk(void* pages) noexcept : bytes_(static_cast<std::uint8_t*>(pages)) {}
    ~Chunk() { free_pages(get()); }
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    Chunk(Chunk&& other) noexcept : bytes_(other.bytes_.exchange(nullptr)) {}
    Chunk& operator=(Chunk&&) = delete;

    [[nodiscard]] std::uint8_t* get() const noexcept {
      return bytes_.load(std::memory_order_acquire);
    }
    // Takes the other's pages where it has none.
    void take(Chunk& other) noexcept {
      std::uint8_t* none = nullptr;
      if (bytes_.compare_exchange_strong(none, other.get())) other.bytes_ = nullptr;
    }

   private:
    std::atomic<std::uint8_t*> bytes_ = nullptr;
  };

  // Puts the signs of a row into a chunk.
  void put(Slot slot, const std::uint8_t* high, float factor,
           std::uint8_t* chunk) noexcept;

  const VectorSpace* space_;
  std::vector<Chunk> chunks_;
};

}  // namespace vecall

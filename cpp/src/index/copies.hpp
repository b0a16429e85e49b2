#pragma once

// Finds rows of a graph that hold a given vector, by a hash of their codes: a search
// for a vector that a row has begins at that row, independent of the links.
//
// One table of lists for each chunk of slots, so that nothing moves when rows are
// added. Thread safety: const methods need the partition's lock shared, the others
// unique.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "rows/row_table.hpp"
#include "vectors/row_image.hpp"

namespace vecall {

class Copies {
 public:
  // Makes room for slots below `slots`; add() cannot fail afterwards. Strong guarantee.
  void reserve(std::size_t slots);
  // Takes a row that is linked; nothing happens if it is here. REQUIRES: reserved; the
  // slot has a vector.
  void add(const RowTable& rows, Slot slot) noexcept;
  // Forgets a row, if it is here, while its codes are still in its slot.
  void remove(const RowTable& rows, Slot slot) noexcept;

  // Calls visit(slot) for each row that is equal to the image, until it returns false.
  template <class Visit>
  void find(const RowTable& rows, const RowImage& image, Visit visit) const;

  [[nodiscard]] std::size_t nbytes() const noexcept {
    return chunks_.size() * sizeof(Chunk);
  }

  // The lists as numbers, so many for each slot of whole chunks.
  static constexpr std::size_t kNumbers = 2;
  void save(std::span<std::uint16_t> out) const noexcept;
  // Takes what save() wrote; false where those are no lists of the slots that are in
  // them according to has(slot). REQUIRES: reserved.
  template <class Has>
  bool restore(std::span<const std::uint16_t> from, Has has);

 private:
  // A row of the chunk, with four bits of its hash, which spare most looks at rows.
  using Entry = std::uint16_t;
  static constexpr Entry kEnd = 0xFFFF;
  static constexpr Entry kAbsent = 0xFFFE;  // in `next`, of a row that is in no list
  static constexpr std::uint32_t kTags = 15;
  struct Chunk {
    Entry first[kChunkRows];
    Entry next[kChunkRows];
  };
  static_assert(sizeof(Chunk) == kNumbers * kChunkRows * sizeof(Entry));

  static std::size_t row_of(Entry entry) noexcept { return entry % kChunkRows; }
  static std::size_t list_of(std::uint32_t hash) noexcept { return hash % kChunkRows; }
  static Entry entry_of(std::uint32_t hash, std::size_t row) noexcept {
    return static_cast<Entry>((hash / kChunkRows % kTags) * kChunkRows + row);
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
};

template <class Has>
bool Copies::restore(std::span<const std::uint16_t> from, Has has) {
  for (std::size_t at = 0; at < chunks_.size(); ++at) {
    Chunk& chunk = *chunks_[at];
    std::memcpy(&chunk, from.data() + at * kNumbers * kChunkRows, sizeof(chunk));
    std::uint8_t left[kChunkRows];
    std::size_t rows = 0;
    for (std::size_t row = 0; row < kChunkRows; ++row) {
      left[row] = has(static_cast<Slot>(at * kChunkRows + row)) ? 1 : 0;
      rows += left[row];
      if (left[row] == 0 && chunk.next[row] != kAbsent) return false;
    }
    for (const Entry first : chunk.first) {
      for (Entry entry = first; entry != kEnd; entry = chunk.next[row_of(entry)]) {
        if (left[row_of(entry)] == 0) return false;
        left[row_of(entry)] = 0;
        --rows;
      }
    }
    if (rows != 0) return false;
  }
  return true;
}

template <class Visit>
void Copies::find(const RowTable& rows, const RowImage& image, Visit visit) const {
  const std::uint32_t hash = image.hash();
  const Entry tag = entry_of(hash, 0);
  for (std::size_t at = 0; at < chunks_.size(); ++at) {
    const Chunk& chunk = *chunks_[at];
    for (Entry entry = chunk.first[list_of(hash)]; entry != kEnd;
         entry = chunk.next[row_of(entry)]) {
      if (entry - row_of(entry) != tag) continue;
      const auto slot = static_cast<Slot>(at * kChunkRows + row_of(entry));
      if (image.is(rows.codes(slot)) && !visit(slot)) return;
    }
  }
}

}  // namespace vecall

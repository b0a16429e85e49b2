#include "index/copies.hpp"

#include <algorithm>
#include <iterator>

#include "vecall/assert.hpp"

namespace vecall {

void Copies::reserve(std::size_t slots) {
  while (chunks_.size() * kChunkRows < slots) {
    auto chunk = std::make_unique<Chunk>();
    std::fill(std::begin(chunk->first), std::end(chunk->first), kEnd);
    std::fill(std::begin(chunk->next), std::end(chunk->next), kAbsent);
    chunks_.push_back(std::move(chunk));
  }
}

void Copies::save(std::span<std::uint16_t> out) const noexcept {
  for (std::size_t at = 0; at < chunks_.size(); ++at) {
    std::memcpy(out.data() + at * kNumbers * kChunkRows, chunks_[at].get(),
                sizeof(Chunk));
  }
}

void Copies::add(const RowTable& rows, Slot slot) noexcept {
  VECALL_ASSERT(slot / kChunkRows < chunks_.size() && rows.has_vector(slot));
  Chunk& chunk = *chunks_[slot / kChunkRows];
  const std::size_t row = slot % kChunkRows;
  if (chunk.next[row] != kAbsent) return;
  const std::uint32_t hash = hash_of_row(rows.space(), rows.codes(slot));
  chunk.next[row] = chunk.first[list_of(hash)];
  chunk.first[list_of(hash)] = entry_of(hash, row);
}

void Copies::remove(const RowTable& rows, Slot slot) noexcept {
  if (slot / kChunkRows >= chunks_.size()) return;
  Chunk& chunk = *chunks_[slot / kChunkRows];
  const std::size_t row = slot % kChunkRows;
  if (chunk.next[row] == kAbsent) return;
  const std::uint32_t hash = hash_of_row(rows.space(), rows.codes(slot));
  Entry* link = &chunk.first[list_of(hash)];
  while (row_of(*link) != row) link = &chunk.next[row_of(*link)];
  *link = chunk.next[row];
  chunk.next[row] = kAbsent;
}

}  // namespace vecall

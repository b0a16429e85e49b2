#pragma once

// Blocks of sorted entries of which an insertion moves one. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace vecall {

// A block of these entries, with room for `most`.
template <class Entry>
std::vector<Entry> make_block(std::span<const Entry> entries, std::size_t most) {
  std::vector<Entry> block;
  block.reserve(most);
  block.assign(entries.begin(), entries.end());
  return block;
}

// A full block, at `at`, becomes two with room for as many as it has. The last one
// stays whole but for one entry: most entries come at the end. Strong guarantee.
template <class Entry>
void split_block(std::vector<std::vector<Entry>>& blocks, std::size_t at) {
  if (blocks.size() == blocks.capacity()) blocks.reserve(2 * blocks.size());
  const std::size_t most = blocks[at].size();
  const std::size_t kept = at + 1 == blocks.size() ? most - 1 : most / 2;
  auto upper = make_block(std::span<const Entry>(blocks[at]).subspan(kept), most);
  blocks[at].resize(kept);
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
}

}  // namespace vecall

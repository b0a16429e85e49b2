#pragma once

// Blocks of sorted entries of which an insertion moves one. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace vecall {

// An empty block, made one of the entries of a span, with room for `most`.
template <class Block, class Entry>
Block make_block(Block block, std::span<Entry> entries, std::size_t most) {
  block.reserve(most);
  block.assign(entries.data(), entries.data() + entries.size());
  return block;
}

// A full block, at `at`, becomes two with room for as many as it has. The last one
// stays whole but for one entry: most entries come at the end. Strong guarantee.
template <class Block>
void split_block(std::vector<Block>& blocks, std::size_t at) {
  if (blocks.size() == blocks.capacity()) blocks.reserve(2 * blocks.size());
  const std::size_t most = blocks[at].size();
  const std::size_t kept = at + 1 == blocks.size() ? most - 1 : most / 2;
  auto upper = make_block(Block(), std::span(blocks[at]).subspan(kept), most);
  blocks[at].resize(kept);
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
}

}  // namespace vecall

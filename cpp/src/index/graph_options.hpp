#pragma once

// When a partition gets a graph, and what it looks like.

#include <cstddef>
#include <cstdint>

namespace vecall {

enum class IndexKind : std::uint8_t { kAuto, kFlat, kHnsw };

struct GraphOptions {
  IndexKind kind = IndexKind::kAuto;
  std::uint32_t m = 16;                 // links a row, twice that on the lowest level
  std::uint32_t ef_construction = 100;  // breadth of the search for a new row's links
  // Up to here the high planes of a partition are scanned whole, in bytes.
  std::size_t flat_bytes = std::size_t{4} << 20;

  [[nodiscard]] bool wants_graph(std::size_t bytes) const noexcept {
    return kind == IndexKind::kHnsw || (kind == IndexKind::kAuto && bytes > flat_bytes);
  }
};

}  // namespace vecall

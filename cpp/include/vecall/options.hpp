#pragma once

// How an Index or an Engine holds its vectors. Plain data.

#include <cstddef>
#include <cstdint>

#include "vecall/types.hpp"

namespace vecall {

enum class IndexKind : std::uint8_t { kAuto, kFlat, kHnsw };

inline constexpr std::uint32_t kLeastLinks = 2;
inline constexpr std::uint32_t kMostLinks = 256;
inline constexpr std::uint32_t kMostBreadth = 100'000;

// When a partition gets a graph, and what the graph looks like.
struct GraphOptions {
  IndexKind kind = IndexKind::kAuto;
  // Links of a row, kLeastLinks to kMostLinks; twice that on the lowest level.
  std::uint32_t m = 16;
  // Breadth of the search for a new row's links, 1 to kMostBreadth.
  std::uint32_t ef_construction = 100;
  // Bytes of 4-bit codes up to which kAuto scans.
  std::size_t flat_bytes = std::size_t{4} << 20;

  [[nodiscard]] bool wants_graph(std::size_t bytes) const noexcept {
    return kind == IndexKind::kHnsw || (kind == IndexKind::kAuto && bytes > flat_bytes);
  }
};

// The default seed of the random rotation before vectors become codes. Part of a
// snapshot: codes of another seed are codes of other vectors. Whoever knows the seed
// can make vectors that are not found or score wrongly, so untrusted vectors need a
// secret seed.
inline constexpr std::uint64_t kRotationSeed = 0x7665'6361'6c6c'0001ULL;

struct Options {
  GraphOptions graph;
  Codec codec = Codec::kInt4Plus8;
  bool keep_float32 = false;  // keep the vectors themselves too, for exact searches
  std::uint64_t seed = kRotationSeed;
};

}  // namespace vecall

#pragma once

// The options that Index and Engine share, from what Python calls them.

#include <algorithm>
#include <string>

#include "casters.hpp"
#include "index/graph_options.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

inline IndexKind parse_kind(const std::string& kind) {
  if (kind == "auto") return IndexKind::kAuto;
  if (kind == "flat") return IndexKind::kFlat;
  if (kind == "hnsw") return IndexKind::kHnsw;
  throw InvalidArgumentError("kind: must be 'auto', 'flat' or 'hnsw'");
}

inline Codec parse_codec(const std::string& codec) {
  if (codec == "int4") return Codec::kInt4;
  if (codec == "int4+8") return Codec::kInt4Plus8;
  if (codec == "int4+8+4") return Codec::kInt4Plus8Plus4;
  throw InvalidArgumentError("codec: must be 'int4', 'int4+8' or 'int4+8+4'");
}

inline GraphOptions parse_graph(const std::string& kind, Links m, BuildBreadth breadth,
                                FlatBytes flat_bytes) {
  constexpr std::size_t kMostLinks = 256;
  constexpr std::size_t kMostBreadth = 100'000;
  if (m.value > kMostLinks) {
    throw InvalidArgumentError("m: must be at most 256");
  }
  if (breadth.value > kMostBreadth) {
    throw InvalidArgumentError("ef_construction: must be at most 100000");
  }
  return {parse_kind(kind), static_cast<std::uint32_t>(m.value),
          static_cast<std::uint32_t>(breadth.value), flat_bytes.value};
}

inline constexpr const char* kOptionsDoc = R"(
    kind: 'flat' looks at every row, 'hnsw' keeps a graph of them, 'auto' does so from
        flat_bytes on. Rows are linked in the background and found at once.
    m: Links of a row on the graph's upper levels, twice that on the lowest; 2 to 256.
    ef_construction: Breadth of the search for a new row's links, up to 100,000.
    codec: What stays in memory of each value: 'int4' (4 bits; scores are rough),
        'int4+8' (12 bits) or 'int4+8+4' (16 bits).
    keep_float32: Whether the vectors themselves stay too, for exact=True.
    flat_bytes: Bytes of 4-bit codes up to which 'auto' scans.
    seed: Of the random rotation before vectors become codes, 64 bits. The same seed and
        vectors give the same answers everywhere. Who knows it can make vectors that are
        not found or score wrongly: give a secret one where strangers bring vectors.
)";

}  // namespace vecall::bindings

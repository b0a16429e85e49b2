#pragma once

// The options that Index and Engine share, from what Python calls them.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "casters.hpp"
#include "vecall/errors.hpp"
#include "vecall/options.hpp"
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

inline Options parse_options(const std::string& kind, Links m,
                             BuildBreadth ef_construction, const std::string& codec,
                             bool keep_float32, FlatBytes flat_bytes, Seed seed) {
  const auto narrow = [](std::size_t value) {
    constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(value, kMost));
  };
  Options options;
  options.graph = {parse_kind(kind), narrow(m.value), narrow(ef_construction.value),
                   flat_bytes.value};
  options.codec = parse_codec(codec);
  options.keep_float32 = keep_float32;
  options.seed = seed.value;
  return options;
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
        vectors give the same answers everywhere. With it known, vectors can be made that
        are not found or score wrongly: give a secret one for untrusted vectors.
)";

}  // namespace vecall::bindings

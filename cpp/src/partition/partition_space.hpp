#pragma once

// What all partitions of an engine share.

#include <cstddef>
#include <cstdint>

#include "index/graph_options.hpp"
#include "rows/row_space.hpp"
#include "sync/ref.hpp"

namespace vecall {

struct PartitionSpace : RefCounted {
  RowSpace rows;
  GraphOptions graph;

  PartitionSpace(std::size_t dim, Codec codec, bool keep_float32,
                 const GraphOptions& options, std::uint64_t seed = kRotationSeed)
      : rows(dim, codec, keep_float32, seed), graph(options) {}
};

}  // namespace vecall

#pragma once

// What all partitions of an engine share. Immutable after construction, so it is read
// without a lock.

#include <cstddef>

#include "rows/row_space.hpp"
#include "sync/ref.hpp"
#include "vecall/options.hpp"

namespace vecall {

struct PartitionSpace : RefCounted {
  RowSpace rows;
  GraphOptions graph;

  PartitionSpace(std::size_t dim, const Options& options)
      : rows(dim, options.codec, options.keep_float32, options.seed),
        graph(options.graph) {}
};

}  // namespace vecall

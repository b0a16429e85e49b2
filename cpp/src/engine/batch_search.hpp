#pragma once

// Many queries to one partition, shared by threads that are started for the call. Holds
// no state of its own.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partition/partition.hpp"
#include "vecall/types.hpp"

namespace vecall {

struct BatchQueries {
  std::vector<float> units;           // (n, dim) of norm 1
  std::vector<std::uint8_t> is_zero;  // (n,), 1 for a zero vector, which finds nothing
  std::size_t k = 1;
  std::size_t ef = 64;
  bool exact = false;
  Filter filter;
};

// Writes the hits of each query to its row of `ids` and `scores`, (n, k) each; entries
// without a hit are left as they are. Uses at most one thread a processor.
void batch_search(const Partition& partition, const BatchQueries& queries,
                  std::size_t threads, std::span<RowId> ids, std::span<float> scores)
    VECALL_REQUIRES_SHARED(partition.mutex());

}  // namespace vecall

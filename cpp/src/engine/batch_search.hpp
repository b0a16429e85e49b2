#pragma once

// Many queries to one partition, shared by threads that are started for the call. Holds
// no state of its own.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "partition/partition.hpp"
#include "vecall/types.hpp"
#include "vecall/wait_hook.hpp"

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
// without a hit are left as they are. Uses at most one thread a processor. Takes the
// partition's lock for a few milliseconds at a time.
void batch_search(const Partition& partition, const BatchQueries& queries,
                  std::size_t threads, PauseHook pause, std::span<RowId> ids,
                  std::span<float> scores) VECALL_EXCLUDES(partition.mutex());

}  // namespace vecall

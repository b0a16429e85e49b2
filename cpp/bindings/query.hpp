#pragma once

// A query vector as the engine wants it: checked, copied and of norm 1. The copy is
// made while the interpreter lock is held, so a caller who writes to the array from
// another thread cannot race the search.

#include <span>
#include <string>
#include <vector>

#include "casters.hpp"
#include "vectors/encode.hpp"

namespace vecall::bindings {

inline void require_dim(std::size_t got, std::size_t dim,
                        const std::string& argument = "vectors") {
  if (got != dim) {
    throw DimensionError(argument + ": expected dimension " + std::to_string(dim) +
                         ", got " + std::to_string(got));
  }
}

// False for a zero vector. Throws for NaN, Inf or a wrong length.
inline bool to_unit(std::span<const float> query, std::size_t dim,
                    std::vector<float>& unit) {
  require_dim(query.size(), dim, "query");
  unit.resize(dim);
  const VectorFault fault = normalise(query, unit);
  if (fault == VectorFault::kZero) return false;
  require(fault, "query");
  return true;
}

}  // namespace vecall::bindings

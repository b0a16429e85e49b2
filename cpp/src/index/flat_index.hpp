#pragma once

// Exact search: the cosine of the query with every row that passes the filter. Holds no
// state of its own, so it is as thread-safe as the rows that it reads.

#include <cstddef>
#include <span>
#include <vector>

#include "filter/row_columns.hpp"
#include "index/top_k.hpp"
#include "vecall/types.hpp"
#include "vectors/vector_store.hpp"

namespace vecall {

// How the query's cosines are spread over the rows that passed. An index that does not
// look at all rows estimates it from a sample.
struct CosineSpread {
  double mean = 0;
  double deviation = 0;
};

// Fills `best` with the k best rows that have a vector and pass, best first, and
// `cosines`, by slot, with what it computed on the way; rows without a vector have no
// meaning there. REQUIRES: unit_query has norm 1 and dim() values; k > 0.
CosineSpread flat_search(const VectorStore& vectors, const RowColumns& rows,
                         std::span<const float> unit_query, const Filter& filter,
                         std::size_t k, std::vector<Scored>& best,
                         std::vector<float>& cosines);

}  // namespace vecall

#pragma once

// Exact search: every row that passes is looked at. Holds no state of its own, so it is
// as thread-safe as the rows that it reads.

#include <cstddef>
#include <span>

#include "index/dense_query.hpp"

namespace vecall {

// Fills scratch.best with the k best rows that have a vector and pass, best first.
// Looks at all rows of the partition in order where most pass, else at those that do.
CosineSpread flat_search(const DenseQuery& query, DenseScratch& scratch);

// The best rows of some queries to the same rows with the same selection, which come to
// the cache once for all; none of them wants the spread. Each has a scratch of its own.
inline constexpr std::size_t kMostTogether = 8;
void flat_search_together(std::span<const DenseQuery> queries,
                          std::span<DenseScratch> scratches);

// Offers the rows of `slots` that pass and have a vector to scratch.shortlist, which
// was begun.
void scan_slots(const DenseQuery& query, std::span<const Slot> slots,
                DenseScratch& scratch);

// The spread over about `count` rows that pass, evenly chosen.
CosineSpread sampled_spread(const DenseQuery& query, std::size_t count,
                            DenseScratch& scratch);

}  // namespace vecall

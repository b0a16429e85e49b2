#pragma once

// The second look: rows that an estimate from the high plane kept are scored from all
// planes.

#include "index/dense_query.hpp"

namespace vecall {

// The cosine of one row from all that is kept of it. REQUIRES: it has a vector.
float full_cosine(const RowTable& rows, const EncodedQuery& query, Slot slot,
                  bool exact) noexcept;

// How far below the k-th best estimate a row may lie and still be among the best k.
float shortlist_margin(const RowTable& rows) noexcept;

// Fills scratch.best with the k best of scratch.shortlist, best first.
void rescore(const DenseQuery& asked, DenseScratch& scratch);

}  // namespace vecall

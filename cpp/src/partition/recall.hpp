#pragma once

// Recall: words and vectors of one partition in one pass, fused to one score. Holds no
// state but a pool of scratch memory, which takes no lock.

#include <vector>

#include "partition/partition_view.hpp"
#include "vecall/types.hpp"

namespace vecall {

// Best first; rows that tie with the last one in score and time are all returned, so
// `out` can be longer than k.
RecallSummary recall_rows(const PartitionView& partition, const RecallQuery& query,
                          std::vector<RecallHit>& out);

}  // namespace vecall

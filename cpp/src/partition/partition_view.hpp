#pragma once

// What a search reads of a partition, and the steps that all searches share. A view is
// valid while the partition's lock is held, shared; the functions hold no state.

#include <cstddef>

#include "filter/row_selection.hpp"
#include "index/dense_query.hpp"
#include "index/graph_index.hpp"
#include "partition/row_names.hpp"
#include "rows/id_map.hpp"
#include "rows/row_table.hpp"
#include "terms/postings.hpp"
#include "vecall/types.hpp"

namespace vecall {

// The pointers are null until a row needs what they point to.
struct PartitionView {
  const RowTable& rows;
  const IdMap& ids;
  const RowNames* names;
  const Postings* postings;
  const GraphIndex* graph;
};

// Selects the rows that pass the filter.
void select_rows(const PartitionView& partition, const Filter& filter,
                 RowSelection& selection);

// Fills scratch.best with the k best rows, best first: by the graph where it is likely
// faster and finds enough, else by a scan.
CosineSpread search_vectors(const PartitionView& partition, const DenseQuery& query,
                            std::size_t ef, DenseScratch& scratch);

}  // namespace vecall

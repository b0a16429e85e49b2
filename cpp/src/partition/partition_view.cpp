#include "partition/partition_view.hpp"

#include <vector>

#include "index/flat_search.hpp"

namespace vecall {

void select_rows(const PartitionView& partition, const Filter& filter,
                 RowSelection& selection) {
  static const std::vector<Slot> no_sessions;
  const RowNames* names = partition.names;
  selection.select(filter, partition.rows, names != nullptr ? &names->labels : nullptr,
                   names != nullptr ? names->sessions.last() : no_sessions,
                   partition.ids);
}

CosineSpread search_vectors(const PartitionView& partition, const DenseQuery& query,
                            std::size_t ef, DenseScratch& scratch) {
  CosineSpread spread;
  const GraphIndex* graph = partition.graph;
  if (graph != nullptr && !query.exact && graph->is_cheaper_than_scan(query, ef) &&
      graph->search(query, ef, scratch, spread)) {
    return spread;
  }
  return flat_search(query, scratch);
}

}  // namespace vecall

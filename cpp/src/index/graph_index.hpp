#pragma once

// A partition's graph from its first row to its last: it is built in the background
// while searches scan, and once it is whole, new rows wait in a tail that is scanned
// exactly until they are linked. After enough changes it is built again beside the old
// one.
//
// Thread safety: const methods need the partition's lock shared, the others unique, but
// for link_some(), which takes it itself. Only one thread links at a time.

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "index/dense_query.hpp"
#include "index/graph.hpp"
#include "index/graph_builder.hpp"
#include "index/graph_linker.hpp"
#include "index/graph_search.hpp"
#include "index/link_batch.hpp"
#include "index/pending_tail.hpp"
#include "index/search_cost.hpp"
#include "rows/row_table.hpp"
#include "sync/fair_mutex.hpp"
#include "sync/shared_mutex.hpp"
#include "vecall/options.hpp"

namespace vecall {

class GraphIndex {
 public:
  explicit GraphIndex(const GraphOptions& options) : options_(options) {}

  // Makes room for `more` rows; the following two cannot fail afterwards.
  void reserve(std::size_t more);
  void on_vector(Slot slot, RowTable& rows) noexcept;
  // REQUIRES: the row's codes are still in its slot.
  void on_remove(Slot slot, const RowTable& rows) noexcept;

  // True once searches may use the graph.
  [[nodiscard]] bool ready() const noexcept { return graph_ != nullptr; }
  // Rows that wait to be linked.
  [[nodiscard]] std::size_t pending(const RowTable& rows) const noexcept;
  [[nodiscard]] bool has_work(const RowTable& rows) const noexcept;

  // Links rows under short holds of `mutex`; true if there is more to do. With a thread
  // for each linker, for a few milliseconds; without linkers, until others want to link
  // or to pause it, but at most `most` parts of a batch.
  bool link_some(SharedMutex& mutex, RowTable& rows, std::size_t most,
                 std::span<GraphLinker> linkers) VECALL_EXCLUDES(mutex);

  // Whether the graph is likely faster than looking at the rows that pass.
  [[nodiscard]] bool is_cheaper_than_scan(const DenseQuery& query,
                                          std::size_t ef) const noexcept;
  // Fills scratch.best with about the k best rows; false where fewer came back than
  // there may be, and the answer is to be looked for otherwise.
  bool search(const DenseQuery& query, std::size_t ef, DenseScratch& scratch,
              CosineSpread& spread) const;

  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  friend class GraphSnapshot;

  // Rows that are linked together.
  static constexpr std::size_t kSliceRows = PendingTail::kMostSlice;
  // Of them, those that become entrances under one hold of the lock.
  static constexpr std::size_t kEntrances = 32;

  struct Turn {
    std::size_t most = 0;  // parts
    std::chrono::steady_clock::time_point end;
    bool has_begun = false;
  };

  [[nodiscard]] bool wants_rebuild(const RowTable& rows) const noexcept;
  bool begin_build(const RowTable& rows);
  // False where there is nothing to link.
  bool begin_slice(RowTable& rows);
  // Does parts of the batch's step while the turn lasts; true if all are done.
  bool do_parts(SharedMutex& mutex, const RowTable& rows, Turn& turn,
                std::span<GraphLinker> linkers) VECALL_EXCLUDES(mutex);
  [[nodiscard]] Graph& graph_of_slice() noexcept {
    return slice_is_tail_ ? *graph_ : builder_.graph();
  }
  // Ends some rows of the slice, and it with the last.
  void end_slice(RowTable& rows);
  void finish_build(RowTable& rows);
  [[nodiscard]] SearchSize size_of(const DenseQuery& query,
                                   std::size_t ef) const noexcept;
  // Leaves the rows near the query in the pool of `search`.
  void traverse(const DenseQuery& query, const SearchSize& size,
                GraphSearch& search) const;
  // Offers what traverse() found to the shortlist. Returns how many of the rows of the
  // tail and of the pool pass.
  std::size_t offer_found(const DenseQuery& query, const GraphSearch& search,
                          DenseScratch& scratch) const;

  const GraphOptions options_;
  FairMutex linking_;             // one linker; taken before the partition's lock
  GraphLinker linker_;            // guarded by linking_
  std::unique_ptr<Graph> graph_;  // null until the first graph is whole
  PendingTail tail_;              // rows that graph_ does not answer for
  GraphBuilder builder_;          // of the graph that will replace graph_
  bool build_had_its_turn_ = false;
  // The slice, guarded by linking_. A call may leave it to the next one.
  bool in_slice_ = false;
  bool slice_is_tail_ = false;  // else of the graph that is built
  LinkBatch batch_;             // its rows
  std::size_t churn_ = 0;       // rows removed since graph_ was begun
};

}  // namespace vecall

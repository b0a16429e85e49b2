#pragma once

// A partition's graph from its first row to its last: it is built in the background
// while searches scan, and once it is whole, new rows wait in a tail that is scanned
// exactly until they are linked. After enough changes it is built again beside the old
// one.
//
// Thread safety: const methods need the partition's lock shared, the others unique, but
// for link_some(), which takes it itself. Only one thread links at a time.

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "index/dense_query.hpp"
#include "index/graph.hpp"
#include "index/graph_linker.hpp"
#include "index/graph_search.hpp"
#include "rows/row_table.hpp"
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

  // Links a few rows under short holds of `mutex`; true if there is more to do.
  bool link_some(SharedMutex& mutex, RowTable& rows) VECALL_EXCLUDES(mutex);

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

  static constexpr std::size_t kSliceRows = 32;  // linked in one call

  // The rows that wait to be linked.
  [[nodiscard]] std::span<const Slot> tail() const noexcept {
    return std::span(pending_).subspan(linked_);
  }
  [[nodiscard]] bool wants_rebuild(const RowTable& rows) const noexcept;
  bool build_some(SharedMutex& mutex, RowTable& rows) VECALL_EXCLUDES(mutex);
  bool link_pending(SharedMutex& mutex, RowTable& rows) VECALL_EXCLUDES(mutex);
  void finish_build(RowTable& rows);
  // Makes a linked row a place where searches of the graph begin.
  static void add_entrances(Graph& graph, const RowTable& rows, Slot slot) noexcept;
  bool begin_build(const RowTable& rows);
  void forget_linked() noexcept;

  const GraphOptions options_;
  std::mutex linking_;  // one linker; taken before the partition's lock
  GraphLinker linker_;  // guarded by linking_
  std::unique_ptr<Graph> graph_;
  // Rows that graph_ does not answer for, after those that were linked lately.
  std::vector<Slot> pending_;
  std::size_t linked_ = 0;       // of pending_, from the front, linked already
  std::size_t in_slice_ = 0;     // of the others, from the front, being linked now
  std::uint64_t changed_ = 0;    // of those, by bit, replaced by another row meanwhile
  std::unique_ptr<Graph> next_;  // being built; not yet searched
  Slot cursor_ = 0;              // next_ has the slots below
  std::vector<Slot> stale_;      // of them, those that hold another row since
  bool build_had_its_turn_ = false;
  std::size_t churn_ = 0;  // rows removed since graph_ was begun
};

}  // namespace vecall

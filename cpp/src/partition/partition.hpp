#pragma once

// All that the engine knows of one (app, user): rows with their vectors, words, times
// and sessions. No data is shared with another partition, statistics and
// postings least of all; what a search scribbles on belongs to its thread and is
// cleared.
//
// Thread safety: callers hold mutex() shared for const methods and unique for the
// others, but for add() and link_some(), which take it themselves; clang checks it. The
// lock is theirs to take because a caller's hook runs before they wait for it
// (engine/shared_read.hpp). A thread that holds mutex() never waits for the
// interpreter.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "index/graph_index.hpp"
#include "partition/partition_key.hpp"
#include "partition/partition_space.hpp"
#include "partition/partition_view.hpp"
#include "partition/row_names.hpp"
#include "rows/id_map.hpp"
#include "rows/row_table.hpp"
#include "sync/ref.hpp"
#include "sync/shared_mutex.hpp"
#include "sync/thread_annotations.hpp"
#include "terms/postings.hpp"
#include "vecall/types.hpp"

namespace vecall {

class EncodedBatch;

class Partition : public RefCounted {
 public:
  explicit Partition(Ref<const PartitionSpace> space, PartitionKey key = {});
  ~Partition();
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // Adds rows, or replaces those whose id is here already: all of them, or none if
  // memory runs out. Takes the lock itself, briefly. Returns whether there are links to
  // make. The second encodes the batch, and throws as that does.
  bool add(const EncodedBatch& batch) VECALL_EXCLUDES(mutex_);
  bool add(const RowBatch& batch) VECALL_EXCLUDES(mutex_);
  // Returns how many of the ids were here.
  std::size_t remove(std::span<const RowId> ids) noexcept VECALL_REQUIRES(mutex_);

  // The k best rows by cosine that pass, best first. REQUIRES: unit_query has norm 1, k
  // > 0.
  // Answers some queries of the same k, ef, exactness and filter, at most
  // kMostTogether.
  void search(std::span<const SearchQuery> queries,
              std::span<std::vector<Hit>> out) const VECALL_REQUIRES_SHARED(mutex_);
  void search(const SearchQuery& query, std::vector<Hit>& out) const
      VECALL_REQUIRES_SHARED(mutex_);
  // Both sides of recall in one pass, best first; rows that tie with the last one in
  // score and time are all returned, so `out` can be longer than k.
  RecallSummary recall(const RecallQuery& query, std::vector<RecallHit>& out) const
      VECALL_REQUIRES_SHARED(mutex_);

  // True if rows should be in a graph and are not yet.
  [[nodiscard]] bool has_links_to_make() const noexcept VECALL_REQUIRES_SHARED(mutex_);
  // Links some of them (see GraphIndex); true if there are more. Takes the lock itself,
  // briefly.
  bool link_some(std::size_t most = static_cast<std::size_t>(-1))
      VECALL_EXCLUDES(mutex_);
  bool link_some(std::span<GraphLinker> linkers) VECALL_EXCLUDES(mutex_);
  // Whether the partition waits in the linker's queue, and before which other one. The
  // linker's lock guards both.
  [[nodiscard]] bool is_queued() const noexcept { return queued_; }
  void set_queued(bool queued) noexcept { queued_ = queued; }
  void queue_next(Ref<Partition> next) noexcept { next_in_queue_ = std::move(next); }
  [[nodiscard]] Ref<Partition> take_next() noexcept {
    return std::move(next_in_queue_);
  }
  // Whether it was looked up since the mark was taken (see PartitionMap::sweep).
  void mark_used() noexcept {
    if (!used_.load(std::memory_order_relaxed)) {
      used_.store(true, std::memory_order_relaxed);
    }
  }
  bool take_used_mark() noexcept {
    return used_.exchange(false, std::memory_order_relaxed);
  }

  // The names that it was made with; never changes.
  [[nodiscard]] PartitionKey key() const noexcept { return key_.view(); }
  [[nodiscard]] SharedMutex& mutex() const noexcept VECALL_RETURN_CAPABILITY(mutex_) {
    return mutex_;
  }
  [[nodiscard]] std::size_t dim() const noexcept { return space_->rows.dim(); }
  [[nodiscard]] std::size_t size() const noexcept VECALL_REQUIRES_SHARED(mutex_) {
    return rows_.live();
  }
  // Rows that the graph answers for.
  [[nodiscard]] std::size_t linked() const noexcept VECALL_REQUIRES_SHARED(mutex_);
  [[nodiscard]] bool contains(RowId id) const VECALL_REQUIRES_SHARED(mutex_) {
    return ids_.find(id, rows_) != kNoSlot;
  }
  // By slot: an order that stays until rows are added or removed.
  [[nodiscard]] std::vector<RowId> live_ids() const VECALL_REQUIRES_SHARED(mutex_);
  // About how many bytes of codes a search reads: what decides whether it is short.
  [[nodiscard]] std::size_t search_bytes(std::size_t ef) const noexcept
      VECALL_REQUIRES_SHARED(mutex_);
  // The same for recall(), whose other work is counted as the bytes that take as long.
  [[nodiscard]] std::size_t recall_bytes(const RecallQuery& query) const
      VECALL_REQUIRES_SHARED(mutex_);
  // Constant time.
  [[nodiscard]] std::size_t nbytes() const noexcept VECALL_REQUIRES_SHARED(mutex_);

 private:
  friend class PartitionSnapshot;

  class BatchInsert;

  bool link_some(std::size_t most, std::span<GraphLinker> linkers)
      VECALL_EXCLUDES(mutex_);
  // Copies codes of a large batch to slots that no reader looks at.
  void place(BatchInsert& insert) VECALL_EXCLUDES(mutex_);
  void remove_slot(Slot slot) noexcept VECALL_REQUIRES(mutex_);
  // All of that but the postings, which then name a slot that is free.
  void release_slot(Slot slot) noexcept VECALL_REQUIRES(mutex_);
  void release_names(std::uint32_t session, std::uint32_t author,
                     std::uint32_t kind) noexcept VECALL_REQUIRES(mutex_);
  [[nodiscard]] PartitionView view() const noexcept VECALL_REQUIRES_SHARED(mutex_) {
    return {rows_, ids_, names_.get(), postings_.get(), graph_.get()};
  }

  mutable SharedMutex mutex_;
  // Held by the one call that adds rows. Taken before ForkGate and mutex_; a fork does
  // not wait for it.
  SharedMutex adding_;
  const OwnedKey key_;
  const Ref<const PartitionSpace> space_;
  // The pointers are null until a row needs what they point to.
  RowTable rows_ VECALL_GUARDED_BY(mutex_);
  IdMap ids_ VECALL_GUARDED_BY(mutex_);
  std::unique_ptr<RowNames> names_ VECALL_GUARDED_BY(mutex_);
  std::unique_ptr<Postings> postings_ VECALL_GUARDED_BY(mutex_);
  std::unique_ptr<GraphIndex> graph_ VECALL_GUARDED_BY(mutex_);
  Ref<Partition> next_in_queue_;
  bool queued_ = false;
  std::atomic<bool> used_{true};
};

}  // namespace vecall

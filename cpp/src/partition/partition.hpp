#pragma once

// All that the engine knows of one (app, user): rows with their vectors, words, times
// and sessions. Nothing that is kept is shared with another partition, statistics and
// postings least of all; what a search scribbles on belongs to its thread and is
// cleared.
//
// Thread safety: callers hold mutex() shared for const methods and unique for the
// others. The lock is theirs to take because the bindings try it with the interpreter
// lock held and give that up before they wait (bindings/gil.hpp). Whoever holds mutex()
// never waits for the interpreter.

#include <cstddef>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "filter/row_columns.hpp"
#include "partition/session_order.hpp"
#include "terms/postings.hpp"
#include "vecall/types.hpp"
#include "vectors/vector_store.hpp"

namespace vecall {

class Partition {
 public:
  explicit Partition(std::size_t dim) : vectors_(dim) {}
  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  // Throws unless sizes agree and offsets are in order. Needs no lock; add() relies on
  // it.
  static void check(const RowBatch& batch, std::size_t dim);

  // Adds rows, or replaces those whose id is here already.
  // REQUIRES: check(batch, dim()) passed.
  void add(const RowBatch& batch);
  // Returns how many of the ids were here.
  std::size_t remove(std::span<const RowId> ids) noexcept;

  // The k best rows by cosine that pass, best first. REQUIRES: unit_query has norm 1, k
  // > 0.
  void search(std::span<const float> unit_query, const Filter& filter, std::size_t k,
              std::vector<Hit>& out) const;
  // Both sides of recall in one pass, best first; rows that tie with the last one in
  // score and time are all returned, so `out` can be longer than k.
  void recall(const RecallQuery& query, std::vector<RecallHit>& out) const;

  [[nodiscard]] std::shared_mutex& mutex() const noexcept { return mutex_; }
  [[nodiscard]] std::size_t dim() const noexcept { return vectors_.dim(); }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.live(); }
  [[nodiscard]] bool contains(RowId id) const { return slot_of_.contains(id); }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  struct RecallScratch;

  void add_row(const RowBatch& batch, std::size_t i);
  void remove_slot(Slot slot) noexcept;
  void propose(const RecallQuery& query, RecallScratch& scratch) const;
  void add_candidate(Slot slot, const RecallQuery& query, RecallScratch& scratch) const;
  void link_neighbours(RecallScratch& scratch) const;

  mutable std::shared_mutex mutex_;
  // Guarded by mutex_.
  RowColumns rows_;
  VectorStore vectors_;
  Postings postings_;
  SessionOrder sessions_;
  std::unordered_map<RowId, Slot> slot_of_;
  std::vector<Slot> free_;
};

}  // namespace vecall

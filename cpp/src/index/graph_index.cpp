#include "index/graph_index.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <span>

#include "index/flat_search.hpp"
#include "index/rescore.hpp"
#include "kernels/dispatch.hpp"
#include "sync/locks.hpp"
#include "sync/run_together.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

// How long rows are linked before others may.
constexpr std::chrono::milliseconds kTurn{20};
// Parts that are worth another thread.
constexpr std::size_t kPartsAThread = 16;

constexpr std::size_t kSampledRows = 256;  // from which the spread is estimated

// From so many entries a hit on, the pool holds all that may be among the best; of a
// smaller one, rows that fell out of it are looked at again.
constexpr std::size_t kPoolPerHit = 4;
bool passes(const DenseQuery& query, Slot slot) noexcept {
  return query.rows.has_vector(slot) &&
         (query.selection.selects_all() || query.selection.contains(slot));
}

// Whether the best rows are in the pool: not where it ends among rows that an estimate
// cannot tell from the k-th.
bool pool_says_all(const GraphSearch& search, const DenseQuery& query) {
  const auto& pool = search.pool();
  if (search.left_out_equals() || pool.size() < kPoolPerHit * query.k) return false;
  const float kth = pool[query.k - 1].estimate;
  return pool.back().estimate < kth - estimate_error(query).margin(kth);
}

// Offers every row that was compared and passes. Returns how many of them are as near
// as what the pool holds.
template <class Passes>
std::size_t offer_met(const GraphSearch& search, DenseScratch& scratch, Passes passes) {
  const auto& slots = search.met();
  const auto& estimates = search.met_estimates();
  scratch.slots.resize(slots.size());
  scratch.estimates.resize(std::max(scratch.estimates.size(), slots.size()));
  std::size_t count = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    scratch.slots[count] = slots[i];
    scratch.estimates[count] = estimates[i];
    count += passes(slots[i]) ? 1 : 0;
  }
  scratch.shortlist.offer(scratch.slots.data(), scratch.estimates.data(), count,
                          scratch.positions);
  return kernels::active().reaching(scratch.estimates.data(), count,
                                    search.pool().back().estimate);
}

}  // namespace

void GraphIndex::reserve(std::size_t more) {
  tail_.reserve(more);
  builder_.reserve(more);
}

void GraphIndex::on_vector(Slot slot, RowTable& rows) noexcept {
  if (graph_) tail_.add(slot, rows);
  builder_.on_vector(slot);
}

void GraphIndex::on_remove(Slot slot, const RowTable& rows) noexcept {
  VECALL_ASSERT(rows.has_vector(slot));
  if (graph_) {
    ++churn_;
    graph_->copies().remove(rows, slot);
  }
  builder_.on_remove(slot, rows);
}

std::size_t GraphIndex::pending(const RowTable& rows) const noexcept {
  return graph_ ? tail_.size() : rows.vectors();
}

bool GraphIndex::wants_rebuild(const RowTable& rows) const noexcept {
  return churn_ > 1'000 + rows.vectors() / 2;
}

bool GraphIndex::has_work(const RowTable& rows) const noexcept {
  return builder_.is_building() || !tail_.empty() || wants_rebuild(rows) ||
         (!graph_ && rows.vectors() > 0);
}

bool GraphIndex::link_some(SharedMutex& mutex, RowTable& rows, std::size_t most,
                           std::span<GraphLinker> linkers) {
  const std::lock_guard one(linking_);
  if (!in_slice_) {
    const WriterLock lock(mutex);
    if (!begin_slice(rows)) return false;
  }
  Turn turn{most, std::chrono::steady_clock::now() + kTurn};
  while (!batch_.is_linked()) {
    if (!do_parts(mutex, rows, turn, linkers)) return true;
    const ReaderLock lock(mutex);
    batch_.next_step(graph_of_slice());
  }
  while (in_slice_) {
    const WriterLock lock(mutex);
    end_slice(rows);
  }
  const ReaderLock lock(mutex);
  if (has_work(rows)) return true;
  batch_ = {};
  return false;
}

bool GraphIndex::do_parts(SharedMutex& mutex, const RowTable& rows, Turn& turn,
                          std::span<GraphLinker> linkers) {
  Graph& graph = graph_of_slice();
  const std::size_t parts = batch_.parts();
  const std::size_t first = batch_.next_part();
  const std::size_t wanted =
      batch_.is_parallel() ? (parts - first) / kPartsAThread : std::size_t{1};
  std::atomic<std::size_t> next{first};
  const auto is_over = [&] {
    const bool late = std::chrono::steady_clock::now() >= turn.end;
    if (!linkers.empty()) return late;
    if (turn.most == 0 || (turn.has_begun && (late || linking_.is_wanted()))) {
      return true;
    }
    turn.has_begun = true;
    --turn.most;
    return false;
  };
  run_together(
      std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, linkers.size())),
      [&](std::size_t number) {
        GraphLinker& linker = linkers.empty() ? linker_ : linkers[number];
        try {
          while (!is_over()) {
            const std::size_t part = next.fetch_add(1);
            if (part >= parts) return;
            if (batch_.is_done(part)) continue;
            const ReaderLock lock(mutex);
            batch_.do_part(part, graph, rows, linker, options_.ef_construction);
          }
        } catch (...) {
          next = parts;
          throw;
        }
      });
  return batch_.next_part() == parts;
}

bool GraphIndex::begin_slice(RowTable& rows) {
  slice_is_tail_ = graph_ && !tail_.empty();
  if (slice_is_tail_ && (builder_.is_building() || wants_rebuild(rows))) {
    // Steady writes shall not keep a new graph from being built, nor it the tail.
    slice_is_tail_ = build_had_its_turn_;
    build_had_its_turn_ = !build_had_its_turn_;
  }
  if (slice_is_tail_) {
    tail_.begin_slice(kSliceRows);
    batch_.begin(*graph_, rows, tail_.slice());
  } else {
    if (!builder_.is_building() && !begin_build(rows)) return false;
    builder_.begin_slice(rows, kSliceRows, batch_);
  }
  in_slice_ = true;
  return true;
}

void GraphIndex::end_slice(RowTable& rows) {
  if (slice_is_tail_) {
    in_slice_ = !tail_.end_slice(rows, kEntrances,
                                 [&](Slot slot) { graph_->add_entrances(rows, slot); });
  } else {
    in_slice_ = !builder_.end_slice(rows, kEntrances);
    if (!in_slice_ && builder_.is_whole(rows)) finish_build(rows);
  }
}

bool GraphIndex::begin_build(const RowTable& rows) {
  if (rows.vectors() == 0 || (graph_ && !wants_rebuild(rows))) return false;
  builder_.begin(options_.m);
  churn_ = 0;
  return true;
}

// Searches use the new graph from here on.
void GraphIndex::finish_build(RowTable& rows) {
  tail_.reserve(builder_.stale());
  GraphBuilder::Built built = builder_.finish(rows);  // nothing below can fail
  tail_.clear(rows);
  graph_ = std::move(built.graph);
  for (const Slot slot : built.stale) {
    if (rows.has_vector(slot)) tail_.add(slot, rows);
  }
}

std::size_t GraphIndex::nbytes() const noexcept {
  return sizeof(*this) + (graph_ ? graph_->nbytes() : 0) + builder_.nbytes() +
         tail_.nbytes();
}

SearchSize GraphIndex::size_of(const DenseQuery& query, std::size_t ef) const noexcept {
  return {query.rows.slots(), query.selection.count(), query.selection.selects_all(),
          tail_.size(),       std::max(ef, query.k),   query.k};
}

bool GraphIndex::is_cheaper_than_scan(const DenseQuery& query,
                                      std::size_t ef) const noexcept {
  return graph_ && traversal_is_cheaper(size_of(query, ef), options_.kind);
}

bool GraphIndex::search(const DenseQuery& query, std::size_t ef, DenseScratch& scratch,
                        CosineSpread& spread) const {
  thread_local GraphSearch of_thread;
  GraphSearch& graph_search = of_thread;  // found once: the way to it is a call
  if (graph_->entry().slot == kNoSlot) return false;
  scratch.shortlist.begin(query.k, estimate_error(query));
  scan_slots(query, tail_.slots(), scratch);
  traverse(query, size_of(query, ef), graph_search);
  const std::size_t passing = offer_found(query, graph_search, scratch);
  // The pool is what lies nearest as far as the graph knows. Unless k of it pass, or it
  // holds every row, rows that pass may be nearer than the strays that were met.
  const std::size_t there =
      query.selection.selects_all() ? query.rows.vectors() : query.selection.count();
  if (passing < std::min(query.k, there)) return false;
  rescore(query, scratch);
  if (query.want_spread) spread = sampled_spread(query, kSampledRows, scratch);
  return true;
}

void GraphIndex::traverse(const DenseQuery& query, const SearchSize& size,
                          GraphSearch& search) const {
  const RowTable& rows = query.rows;
  const std::size_t pool = pool_size(size);
  const std::size_t most_copies = std::clamp<std::size_t>(pool / 4, 1, query.k);
  constexpr float kNoLimit = std::numeric_limits<float>::infinity();
  search.enter(*graph_, rows, query.encoded);
  search.add_copies(*graph_, rows, query.encoded, most_copies, [&](Slot slot) {
    return !rows.is_pending(slot) && passes(query, slot);
  });
  search.search(*graph_, rows, query.encoded, 0, pool, kNoLimit, query.k);
}

std::size_t GraphIndex::offer_found(const DenseQuery& query, const GraphSearch& search,
                                    DenseScratch& scratch) const {
  const RowTable& rows = query.rows;
  if (!query.selection.selects_all() || !rows.all_have_vectors() || !tail_.empty()) {
    // The tail was scanned whole; rows of it may have been removed.
    const auto tail = tail_.slots();
    const auto passing = std::count_if(tail.begin(), tail.end(),
                                       [&](Slot slot) { return passes(query, slot); });
    return static_cast<std::size_t>(passing) +
           offer_met(search, scratch, [&](Slot slot) {
             return !rows.is_pending(slot) && passes(query, slot);
           });
  }
  if (!pool_says_all(search, query)) {
    return offer_met(search, scratch, [](Slot) { return true; });
  }
  for (const GraphSearch::Entry& entry : search.pool()) {
    if (entry.estimate < scratch.shortlist.floor()) break;
    scratch.shortlist.offer(entry.slot(), entry.estimate);
  }
  return search.pool().size();
}

}  // namespace vecall

#include "index/graph_index.hpp"

#include <algorithm>
#include <limits>

#include "index/flat_search.hpp"
#include "index/rescore.hpp"
#include "sync/locks.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kSampledRows = 256;  // from which the spread is estimated

// What a row costs when it is compared, in rows of a scan in order (measured, see
// docs/results/performance.md).
constexpr double kGatheredRow = 2.0;
constexpr double kTraversedRow = 5.0;
// Rows that a traversal compares for each entry of its pool.
constexpr double kComparedPerEf = 18.0;
// From so many entries a hit on, the pool holds all that may be among the best; of a
// smaller one, rows that fell out of it are looked at again.
constexpr std::size_t kPoolPerHit = 4;
// A filtered traversal needs a pool this much larger, beside 1 / share, to find as
// much.
constexpr double kFilteredBreadth = 1.5;

// Room for `more` elements, by doubling: exact growth copies everything each time.
void reserve_more(std::vector<Slot>& slots, std::size_t more) {
  const std::size_t wanted = slots.size() + more;
  if (wanted > slots.capacity()) slots.reserve(std::max(wanted, 2 * slots.size()));
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
std::size_t offer_met(const GraphSearch& search, Shortlist& shortlist, Passes passes) {
  const auto& slots = search.met();
  const auto& estimates = search.met_estimates();
  const float least = search.pool().back().estimate;
  std::size_t near = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const bool wanted = estimates[i] >= shortlist.floor();
    if ((!wanted && estimates[i] < least) || !passes(slots[i])) continue;
    if (wanted) shortlist.offer(slots[i], estimates[i]);
    if (estimates[i] >= least) ++near;
  }
  return near;
}

}  // namespace

void GraphIndex::reserve(std::size_t more) {
  reserve_more(pending_, more);
  if (next_) reserve_more(stale_, more);
}

void GraphIndex::on_vector(Slot slot, RowTable& rows) noexcept {
  if (graph_ && rows.is_pending(slot)) {
    for (std::size_t i = 0; i < in_slice_; ++i) {
      if (tail()[i] == slot) changed_ |= std::uint64_t{1} << i;
    }
  } else if (graph_) {
    rows.set_pending(slot, true);
    pending_.push_back(slot);
  }
  if (next_ && slot < cursor_) stale_.push_back(slot);
}

void GraphIndex::on_remove(Slot slot, const RowTable& rows) noexcept {
  VECALL_ASSERT(rows.has_vector(slot));
  if (graph_) {
    ++churn_;
    graph_->copies().remove(rows, slot);
  }
  if (next_) next_->copies().remove(rows, slot);
}

void GraphIndex::add_entrances(Graph& graph, const RowTable& rows, Slot slot) noexcept {
  if (!graph.is_linked(slot)) return;
  graph.landmarks().add(rows, slot);
  if (rows.has_vector(slot)) graph.copies().add(rows, slot);
}

std::size_t GraphIndex::pending(const RowTable& rows) const noexcept {
  return graph_ ? tail().size() : rows.vectors();
}

bool GraphIndex::wants_rebuild(const RowTable& rows) const noexcept {
  return churn_ > 1'000 + rows.vectors() / 2;
}

bool GraphIndex::has_work(const RowTable& rows) const noexcept {
  return next_ || !tail().empty() || wants_rebuild(rows) ||
         (!graph_ && rows.vectors() > 0);
}

bool GraphIndex::link_some(SharedMutex& mutex, RowTable& rows) {
  const std::lock_guard one(linking_);
  bool linking = false;  // the tail, else a graph is built
  {
    const WriterLock lock(mutex);
    linking = graph_ && !tail().empty();
    if (linking && (next_ || wants_rebuild(rows))) {
      // Steady writes shall not keep a new graph from being built, nor it the tail.
      linking = build_had_its_turn_;
      build_had_its_turn_ = !build_had_its_turn_;
    }
    if (!linking && !next_ && !begin_build(rows)) return false;
    if (linking) reserve_more(pending_, kSliceRows);
    Graph& graph = linking ? *graph_ : *next_;
    if (!graph.has_room(rows.slots(), kSliceRows)) {
      graph.reserve(rows.slots() + kSliceRows, kSliceRows);
    }
    graph.landmarks().reserve(rows, kSliceRows);
    in_slice_ = linking ? std::min(kSliceRows, tail().size()) : 0;
    changed_ = 0;
  }
  return linking ? link_pending(mutex, rows) : build_some(mutex, rows);
}

bool GraphIndex::begin_build(const RowTable& rows) {
  if (rows.vectors() == 0 || (graph_ && !wants_rebuild(rows))) return false;
  next_ = std::make_unique<Graph>(options_.m);
  cursor_ = 0;
  churn_ = 0;
  stale_.clear();
  stale_.reserve(pending_.capacity());
  return true;
}

bool GraphIndex::build_some(SharedMutex& mutex, RowTable& rows) {
  const Slot begin = cursor_;
  for (std::size_t i = 0; i < kSliceRows; ++i) {
    const ReaderLock lock(mutex);
    while (cursor_ < rows.slots() && !rows.has_vector(cursor_)) ++cursor_;
    if (cursor_ >= rows.slots()) break;
    if (!next_->has_room(cursor_ + std::size_t{1}, 1)) break;
    linker_.link(*next_, rows, cursor_, options_.ef_construction);
    ++cursor_;
  }
  const WriterLock lock(mutex);
  for (Slot slot = begin; slot < cursor_; ++slot) {
    add_entrances(*next_, rows, slot);
  }
  if (cursor_ < rows.slots()) return true;
  finish_build(rows);
  return has_work(rows);
}

// Searches use the new graph from here on.
void GraphIndex::finish_build(RowTable& rows) {
  next_->reserve(rows.slots(), 1);
  pending_.reserve(stale_.size());  // nothing below can fail
  for (const Slot slot : tail()) rows.set_pending(slot, false);
  pending_.clear();
  linked_ = 0;
  graph_ = std::move(next_);
  for (const Slot slot : stale_) {
    if (rows.has_vector(slot) && !rows.is_pending(slot)) {
      rows.set_pending(slot, true);
      pending_.push_back(slot);
    }
  }
  std::vector<Slot>().swap(stale_);
}

// The rows of the slice stay pending, and are scanned, until all of them are linked.
bool GraphIndex::link_pending(SharedMutex& mutex, RowTable& rows) {
  for (std::size_t i = 0; i < in_slice_; ++i) {
    const ReaderLock lock(mutex);
    const Slot slot = tail()[i];
    if (rows.has_vector(slot)) {
      linker_.link(*graph_, rows, slot, options_.ef_construction);
    }
  }
  const WriterLock lock(mutex);
  for (std::size_t i = 0; i < in_slice_; ++i) {
    const Slot slot = tail()[i];
    if ((changed_ >> i & 1) != 0) {
      pending_.push_back(slot);  // capacity was reserved with the slice
    } else {
      rows.set_pending(slot, false);
      add_entrances(*graph_, rows, slot);
    }
  }
  linked_ += in_slice_;
  in_slice_ = 0;
  forget_linked();
  return has_work(rows);
}

// Takes the linked rows from the front once they are half of all: each row is moved
// once on average.
void GraphIndex::forget_linked() noexcept {
  if (2 * linked_ < pending_.size()) return;
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(linked_));
  linked_ = 0;
}

std::size_t GraphIndex::nbytes() const noexcept {
  return sizeof(*this) + (graph_ ? graph_->nbytes() : 0) +
         (next_ ? next_->nbytes() : 0) +
         (pending_.capacity() + stale_.capacity()) * sizeof(Slot);
}

bool GraphIndex::is_cheaper_than_scan(const DenseQuery& query,
                                      std::size_t ef) const noexcept {
  if (!graph_) return false;
  const auto slots = static_cast<double>(query.rows.slots());
  const auto matches = static_cast<double>(query.selection.count());
  const double share =
      query.selection.selects_all() ? 1.0 : std::max(matches, 1.0) / slots;
  const double breadth = static_cast<double>(std::max(ef, query.k)) / share;
  const double scanned = static_cast<double>(tail().size()) * kGatheredRow;
  const double traversal = breadth * kComparedPerEf * kTraversedRow + scanned;
  const double scan =
      query.selection.selects_all() ? slots : std::min(matches * kGatheredRow, slots);
  return options_.kind == IndexKind::kHnsw && query.selection.selects_all()
             ? scanned < slots
             : traversal < scan;
}

bool GraphIndex::search(const DenseQuery& query, std::size_t ef, DenseScratch& scratch,
                        CosineSpread& spread) const {
  thread_local GraphSearch of_thread;
  GraphSearch& graph_search = of_thread;  // found once: the way to it is a call
  const RowTable& rows = query.rows;
  if (graph_->entry().slot == Graph::kNoSlot) return false;
  scratch.shortlist.begin(query.k, estimate_error(query));
  scan_slots(query, tail(), scratch);
  const bool every_row = query.selection.selects_all();
  auto breadth = static_cast<double>(std::max(ef, query.k));
  if (!every_row) {
    breadth *= kFilteredBreadth * static_cast<double>(rows.slots()) /
               static_cast<double>(query.selection.count());
  }
  breadth = std::min(breadth, static_cast<double>(rows.slots()));
  const auto pool = static_cast<std::size_t>(breadth);
  constexpr float kNoLimit = std::numeric_limits<float>::infinity();
  graph_search.descend(*graph_, rows, query.encoded, 0);
  graph_search.add_landmarks(*graph_, rows, query.encoded);
  const auto passes = [&](Slot slot) {
    return rows.has_vector(slot) && (every_row || query.selection.contains(slot));
  };
  const std::size_t most_copies = std::clamp<std::size_t>(pool / 4, 1, query.k);
  graph_search.add_copies(*graph_, rows, query.encoded, most_copies, [&](Slot slot) {
    return !rows.is_pending(slot) && passes(slot);
  });
  graph_search.search(*graph_, rows, query.encoded, 0, pool, kNoLimit);
  // The tail was scanned whole; rows of it may have been removed.
  auto passing =
      static_cast<std::size_t>(std::count_if(tail().begin(), tail().end(), passes));
  const auto& found = graph_search.pool();
  const bool all_pass = every_row && rows.all_have_vectors() && tail().empty();
  if (all_pass && pool_says_all(graph_search, query)) {
    passing = found.size();
    for (const GraphSearch::Entry& entry : found) {
      if (entry.estimate < scratch.shortlist.floor()) break;
      scratch.shortlist.offer(entry.slot(), entry.estimate);
    }
  } else if (all_pass) {
    passing = offer_met(graph_search, scratch.shortlist, [](Slot) { return true; });
  } else {
    passing += offer_met(graph_search, scratch.shortlist, [&](Slot slot) {
      return !rows.is_pending(slot) && passes(slot);
    });
  }
  // The pool is what lies nearest as far as the graph knows. Unless k of it pass, or it
  // holds every row, rows that pass may be nearer than the strays that were met.
  const std::size_t there = every_row ? rows.vectors() : query.selection.count();
  if (passing < std::min(query.k, there)) return false;
  rescore(query, scratch);
  if (query.want_spread) spread = sampled_spread(query, kSampledRows, scratch);
  return true;
}

}  // namespace vecall

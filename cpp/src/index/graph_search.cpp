#include "index/graph_search.hpp"

#include <algorithm>
#include <limits>

#include "index/rescore.hpp"
#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kMostCompared = 2048;  // at least the longest list
// Rows whose neighbours' codes are on their way to the cache while those of another one
// are compared. One turn is too short for all of them to arrive.
constexpr std::size_t kInFlight = 2;

}  // namespace

void GraphSearch::begin(const RowTable& rows, std::size_t ef) {
  visited_.assign((rows.slots() + 63) / 64, 0);
  if (pool_.size() > ef)
    pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(ef), pool_.end());
  pool_.reserve(ef + 1);
  met_.clear();
  met_estimates_.clear();
  left_out_equals_ = false;
  limits_equals_ = ef < rows.slots();
  for (Entry& entry : pool_) {
    entry = {entry.estimate, entry.slot()};
    visit_once(entry.slot());
  }
}

std::size_t GraphSearch::collect(const Graph& graph, const RowTable& rows, Slot slot,
                                 int level, std::size_t at) {
  const Graph::Link* links = graph.links(slot, level);
  const std::size_t most = graph.degree(level);
  const std::size_t known = rows.slots();
  const std::size_t bytes = rows.space().high_bytes();
  Slot* slots = slots_.data() + at;
  std::size_t found = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot link = links[i].load(std::memory_order_acquire);
    if (link == kNoSlot) break;
    const Slot other = link & ~Graph::kDominated;
    if (other >= known) continue;
    slots[found] = other;
    found += visit_once(other) ? 1 : 0;  // no branch could predict it
  }
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint8_t* codes = rows.high(slots[i]);
    for (std::size_t line = 0; line < bytes; line += 64) {
      __builtin_prefetch(codes + line);
    }
    codes_[at + i] = codes;
  }
  return found;
}

void GraphSearch::compare(const RowTable& rows, const EncodedQuery& query,
                          std::size_t at, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) factors_[i] = rows.factor(slots_[at + i]);
  kernels::active().gather(query.code(), codes_.data() + at, factors_.data(), count,
                           estimates_.data());
}

Slot GraphSearch::choose(const Graph& graph, const RowTable& rows, int level,
                         std::size_t hits, std::size_t& next) {
  while (next < pool_.size() && pool_[next].expanded()) ++next;
  if (next == pool_.size()) return kNoSlot;
  pool_[next].expand();
  const Slot slot = pool_[next].slot();
  graph.prefetch_links(slot, level);
  if (next++ < hits) prefetch_low(rows, slot);
  return slot;
}

std::size_t GraphSearch::take(const RowTable& rows, const EncodedQuery& query,
                              std::size_t at, std::size_t count, const Limits& limits) {
  compare(rows, query, at, count);
  const Slot* slots = slots_.data() + at;
  met_.insert(met_.end(), slots, slots + count);
  met_estimates_.insert(met_estimates_.end(), estimates_.data(),
                        estimates_.data() + count);
  std::size_t lowest = pool_.size();
  const float floor = pool_.size() < limits.ef ? -std::numeric_limits<float>::infinity()
                                               : pool_.back().estimate;
  const std::size_t good =
      kernels::active().at_least(estimates_.data(), count, floor, positions_.data());
  for (std::size_t i = 0; i < good; ++i) {
    const float estimate = estimates_[positions_[i]];
    if (estimate >= limits.copy && copies_++ >= kMostCopies) continue;
    lowest = std::min(lowest, insert({estimate, slots[positions_[i]]}, limits.ef));
  }
  return lowest;
}

void GraphSearch::search(const Graph& graph, const RowTable& rows,
                         const EncodedQuery& query, int level, std::size_t ef,
                         float copy, std::size_t hits) {
  begin(rows, ef);
  copies_ = 0;
  for (const Entry& entry : pool_) {
    met_.push_back(entry.slot());
    met_estimates_.push_back(entry.estimate);
    if (entry.estimate >= copy) ++copies_;
  }
  const Limits limits{ef, copy};
  std::size_t waiting[kInFlight] = {};
  std::size_t next = 0;
  std::size_t idle = 0;
  Slot chosen = kNoSlot;
  for (std::size_t turn = 0; idle < kInFlight; ++turn) {
    const Slot ready = chosen;
    chosen = choose(graph, rows, level, hits, next);
    const std::size_t at = turn % kInFlight * kMostCompared;
    std::size_t& count = waiting[turn % kInFlight];
    idle = chosen == kNoSlot && ready == kNoSlot && count == 0 ? idle + 1 : 0;
    if (count > 0) next = std::min(next, take(rows, query, at, count, limits));
    count = ready == kNoSlot ? 0 : collect(graph, rows, ready, level, at);
  }
}

void GraphSearch::enter(const Graph& graph, const RowTable& rows,
                        const EncodedQuery& query) {
  const std::size_t landmarks = graph.landmarks().size();
  if (landmarks < kManyLandmarks || landmarks * kRowsALandmark < rows.slots()) {
    descend(graph, rows, query, 0);
  } else {
    make_room();
    pool_.clear();
  }
  add_landmarks(graph, rows, query);
}

void GraphSearch::add_landmarks(const Graph& graph, const RowTable& rows,
                                const EncodedQuery& query) {
  const Landmarks& landmarks = graph.landmarks();
  const std::size_t count = landmarks.size();
  if (count == 0) return;
  nearness_.resize(count);
  landmarks.scan(query, nearness_.data());
  const float least = rank_value(nearness_.data(), count, std::min(kLandmarks, count));
  const std::size_t near =
      kernels::active().at_least(nearness_.data(), count, least, positions_.data());
  std::size_t found = 0;
  for (std::size_t i = 0; i < near && found < kLandmarks; ++i) {
    const Slot slot = landmarks.slot(positions_[i]);
    if (is_in_pool(slot)) continue;
    graph.prefetch_links(slot, 0);
    slots_[found] = slot;
    codes_[found++] = rows.high(slot);
  }
  // Another row may have taken a landmark's slot since.
  add_to_pool(rows, query, found);
}

void GraphSearch::add_to_pool(const RowTable& rows, const EncodedQuery& query,
                              std::size_t count) {
  compare(rows, query, 0, count);
  for (std::size_t i = 0; i < count; ++i) {
    pool_.emplace_back(estimates_[i], slots_[i]);
  }
  std::sort(pool_.begin(), pool_.end(), [](const Entry& a, const Entry& b) {
    return a.estimate != b.estimate ? a.estimate > b.estimate : a.slot() < b.slot();
  });
}

void GraphSearch::make_room() {
  slots_.resize(kInFlight * kMostCompared);
  codes_.resize(kInFlight * kMostCompared);
  factors_.resize(kMostCompared);
  estimates_.resize(kMostCompared);
  positions_.resize(kMostCompared);
}

void GraphSearch::descend(const Graph& graph, const RowTable& rows,
                          const EncodedQuery& query, int level) {
  make_room();
  const Graph::Entry entry = graph.entry();
  VECALL_ASSERT(entry.slot != kNoSlot);
  slots_[0] = entry.slot;
  codes_[0] = rows.high(entry.slot);
  compare(rows, query, 0, 1);
  Entry best{estimates_[0], entry.slot};
  visited_.assign((rows.slots() + 63) / 64, 0);
  visit_once(entry.slot);
  for (int at = entry.level; at > level; --at) {
    for (bool moved = true; moved;) {
      moved = false;
      const std::size_t found = collect(graph, rows, best.slot(), at, 0);
      compare(rows, query, 0, found);
      for (std::size_t i = 0; i < found; ++i) {
        if (estimates_[i] <= best.estimate) continue;
        best = {estimates_[i], slots_[i]};
        moved = true;
      }
    }
  }
  pool_.clear();
  pool_.push_back(best);
}

}  // namespace vecall

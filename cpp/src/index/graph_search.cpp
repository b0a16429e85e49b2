#include "index/graph_search.hpp"

#include <algorithm>
#include <limits>

#include "index/shortlist.hpp"
#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kMostCompared = 2048;  // at least the longest list

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
                                 int level) {
  const Graph::Link* links = graph.links(slot, level);
  const std::size_t most = graph.degree(level);
  const std::size_t known = rows.slots();
  const std::size_t bytes = rows.space().high_bytes();
  std::size_t found = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot link = links[i].load(std::memory_order_acquire);
    if (link == kNoSlot) break;
    const Slot other = link & ~Graph::kDominated;
    if (other >= known || !visit_once(other)) continue;
    const std::uint8_t* codes = rows.high(other);
    for (std::size_t line = 0; line < bytes; line += 64) {
      __builtin_prefetch(codes + line);
    }
    __builtin_prefetch(rows.factors(other));
    slots_[found] = other;
    codes_[found++] = codes;
  }
  return found;
}

void GraphSearch::compare(const RowTable& rows, const EncodedQuery& query,
                          std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) factors_[i] = rows.factor(slots_[i]);
  kernels::active().gather(query.code(), codes_.data(), factors_.data(), count,
                           estimates_.data());
}

void GraphSearch::search(const Graph& graph, const RowTable& rows,
                         const EncodedQuery& query, int level, std::size_t ef,
                         float copy) {
  begin(rows, ef);
  std::size_t copies = 0;
  for (const Entry& entry : pool_) {
    met_.push_back(entry.slot());
    met_estimates_.push_back(entry.estimate);
    if (entry.estimate >= copy) ++copies;
  }
  std::size_t next = 0;
  while (next < pool_.size()) {
    if (pool_[next].expanded()) {
      ++next;
      continue;
    }
    pool_[next].expand();
    const std::size_t found = collect(graph, rows, pool_[next].slot(), level);
    ++next;
    if (found == 0) continue;
    // What is likely expanded next comes to the cache while this is compared.
    if (next < pool_.size()) graph.prefetch_links(pool_[next].slot(), level);
    compare(rows, query, found);
    met_.insert(met_.end(), slots_.data(), slots_.data() + found);
    met_estimates_.insert(met_estimates_.end(), estimates_.data(),
                          estimates_.data() + found);
    std::size_t lowest = next;
    const float floor = pool_.size() < ef ? -std::numeric_limits<float>::infinity()
                                          : pool_.back().estimate;
    const std::size_t good =
        kernels::active().at_least(estimates_.data(), found, floor, positions_.data());
    for (std::size_t i = 0; i < good; ++i) {
      const float estimate = estimates_[positions_[i]];
      if (estimate >= copy && copies++ >= kMostCopies) continue;
      lowest = std::min(lowest, insert({estimate, slots_[positions_[i]]}, ef));
    }
    next = lowest;
  }
}

void GraphSearch::add_landmarks(const Graph& graph, const RowTable& rows,
                                const EncodedQuery& query) {
  VECALL_ASSERT(!pool_.empty());
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
    slots_[found] = slot;
    codes_[found++] = rows.high(slot);
  }
  // Another row may have taken a landmark's slot since.
  add_to_pool(rows, query, found);
}

void GraphSearch::add_to_pool(const RowTable& rows, const EncodedQuery& query,
                              std::size_t count) {
  compare(rows, query, count);
  for (std::size_t i = 0; i < count; ++i) {
    pool_.emplace_back(estimates_[i], slots_[i]);
  }
  std::sort(pool_.begin(), pool_.end(), [](const Entry& a, const Entry& b) {
    return a.estimate != b.estimate ? a.estimate > b.estimate : a.slot() < b.slot();
  });
}

void GraphSearch::descend(const Graph& graph, const RowTable& rows,
                          const EncodedQuery& query, int level) {
  slots_.resize(kMostCompared);
  codes_.resize(kMostCompared);
  factors_.resize(kMostCompared);
  estimates_.resize(kMostCompared);
  positions_.resize(kMostCompared);
  const Graph::Entry entry = graph.entry();
  VECALL_ASSERT(entry.slot != kNoSlot);
  slots_[0] = entry.slot;
  codes_[0] = rows.high(entry.slot);
  compare(rows, query, 1);
  Entry best{estimates_[0], entry.slot};
  visited_.assign((rows.slots() + 63) / 64, 0);
  visit_once(entry.slot);
  for (int at = entry.level; at > level; --at) {
    for (bool moved = true; moved;) {
      moved = false;
      const std::size_t found = collect(graph, rows, best.slot(), at);
      compare(rows, query, found);
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

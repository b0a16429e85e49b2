#include "index/graph_linker.hpp"

#include <algorithm>
#include <limits>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"
#include "vecall/options.hpp"

namespace vecall {

namespace {

// Of its estimate of itself, what a row estimates of another that is as good as a copy.
constexpr float kCopy = 0.999F;
// Links that may replace one to a row that is gone.
constexpr std::size_t kMostCandidates = 4;

bool nearer(const GraphSearch::Entry& a, const GraphSearch::Entry& b) noexcept {
  if (a.estimate != b.estimate) return a.estimate > b.estimate;
  return a.slot() < b.slot();
}

}  // namespace

void GraphLinker::link(Graph& graph, const RowTable& rows, Slot slot,
                       std::uint32_t ef_construction) {
  VECALL_ASSERT(rows.has_vector(slot));
  if (graph.is_linked(slot)) unlink(graph, rows, slot);
  const int level = graph.level_of(slot);
  graph.add_upper_levels(slot);
  const Graph::Entry entry = graph.entry();
  if (entry.slot == kNoSlot) {
    graph.set_linked(slot);
    graph.set_entry({slot, level});
    return;
  }
  auto& [search, query, itself] = link_;
  query.from_row(rows.space(), rows.high(slot), rows.factor(slot));
  const float copy = kCopy * estimate(rows, query, {&slot, 1}, itself).front();
  search.descend(graph, rows, query, level);
  for (int at = std::min(level, entry.level); at >= 0; --at) {
    if (at == 0) search.add_landmarks(graph, rows, query);
    search.search(graph, rows, query, at, ef_construction, copy, {});
    link_level(graph, rows, query, search.pool(), slot, at);
  }
  graph.set_linked(slot);
  if (level > entry.level) graph.set_entry({slot, level});
}

void GraphLinker::link_level(Graph& graph, const RowTable& rows,
                             const EncodedQuery& query, const std::vector<Near>& pool,
                             Slot slot, int level) {
  auto& [near, chosen] = link_level_;
  near.clear();
  for (const Near& found : pool) {
    if (found.slot() != slot && rows.has_vector(found.slot())) {
      near.emplace_back(found.estimate, found.slot());
    }
  }
  diversify(rows, near, graph.m(), chosen);
  set_links(graph, slot, level, chosen);
  for (const Near& other : chosen.rows) {
    link_back(graph, rows, query, other.slot(), {other.estimate, slot}, level);
  }
}

const EncodedQuery& GraphLinker::as_query(const RowTable& rows, Slot slot) {
  as_query_.from_row(rows.space(), rows.high(slot), rows.factor(slot));
  return as_query_;
}

std::span<const float> GraphLinker::estimate(const RowTable& rows,
                                             const EncodedQuery& query,
                                             std::span<const Slot> slots,
                                             std::vector<float>& out) {
  auto& [codes, factors] = estimate_;
  codes.clear();
  factors.clear();
  for (const Slot slot : slots) {
    codes.push_back(rows.high(slot));
    factors.push_back(rows.factor(slot));
  }
  out.resize(slots.size());
  kernels::active().gather(query.code(), codes.data(), factors.data(), slots.size(),
                           out.data());
  return out;
}

// The heuristic of Malkov and Yashunin (their algorithm 4, pruned connections
// included): a row is chosen unless one that was chosen before is nearer to it than it
// is to the middle; what room is left goes to the nearest of the others.
void GraphLinker::diversify(const RowTable& rows, const std::vector<Near>& near,
                            std::size_t most, Chosen& chosen) {
  if (near.size() <= most) {
    chosen.rows = near;
    chosen.diverse = near.size();
    return;
  }
  auto& [dominated, others, estimates] = diversify_;
  chosen.rows.clear();
  dominated.assign(near.size(), 0);
  for (std::size_t i = 0; i < near.size() && chosen.rows.size() < most; ++i) {
    if (dominated[i] != 0) continue;
    chosen.rows.push_back(near[i]);
    others.clear();
    for (std::size_t j = i + 1; j < near.size(); ++j) {
      if (dominated[j] == 0) others.push_back(near[j].slot());
    }
    if (others.empty()) break;
    estimate(rows, as_query(rows, near[i].slot()), others, estimates);
    std::size_t at = 0;
    for (std::size_t j = i + 1; j < near.size(); ++j) {
      if (dominated[j] != 0) continue;
      if (estimates[at++] >= near[j].estimate) dominated[j] = 1;
    }
  }
  chosen.diverse = chosen.rows.size();
  for (std::size_t i = 0; i < near.size() && chosen.rows.size() < most; ++i) {
    if (dominated[i] != 0) chosen.rows.push_back(near[i]);
  }
}

void GraphLinker::set_links(Graph& graph, Slot slot, int level, const Chosen& chosen) {
  Slot links[2 * kMostLinks];
  VECALL_ASSERT(chosen.rows.size() <= graph.degree(level));
  for (std::size_t i = 0; i < chosen.rows.size(); ++i) {
    links[i] = chosen.rows[i].slot() | (i >= chosen.diverse ? Graph::kDominated : 0);
  }
  graph.set_links(slot, level, links, chosen.rows.size());
}

void GraphLinker::link_back(Graph& graph, const RowTable& rows,
                            const EncodedQuery& query, Slot from, Near newcomer,
                            int level) {
  auto& [slots, estimates, by_newcomer, near, chosen] = relink_;
  const std::size_t most = graph.degree(level);
  Graph::Link* links = graph.links(from, level);
  slots.clear();
  bool any_dominated = false;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot link = links[i].load(std::memory_order_relaxed);
    if (link == kNoSlot) break;
    any_dominated = any_dominated || (link & Graph::kDominated) != 0;
    slots.push_back(link & ~Graph::kDominated);
    if (slots.back() == newcomer.slot()) return;
  }
  if (slots.size() < most) {
    links[slots.size()].store(newcomer.slot(), std::memory_order_release);
    return;
  }
  estimate(rows, as_query(rows, from), slots, estimates);
  if (any_dominated) {
    replace_one(rows, links, {slots, estimates}, newcomer,
                estimate(rows, query, slots, by_newcomer));
    return;
  }
  near.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (rows.has_vector(slots[i])) near.emplace_back(estimates[i], slots[i]);
  }
  near.push_back(newcomer);
  std::sort(near.begin(), near.end(), nearer);
  diversify(rows, near, most, chosen);
  set_links(graph, from, level, chosen);
}

// The choice of diversify() for a full list and one newcomer, from what is known of the
// list: of the rows that another one dominates the farthest goes, else the farthest of
// all.
void GraphLinker::replace_one(const RowTable& rows, Graph::Link* links,
                              const NeighbourList& list, Near newcomer,
                              std::span<const float> by_newcomer) {
  const auto& [slots, estimates] = list;
  const float estimate = newcomer.estimate;
  VECALL_ASSERT(slots.size() == estimates.size() && slots.size() == by_newcomer.size());
  bool is_dominated = false;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot link = links[i].load(std::memory_order_relaxed);
    is_dominated =
        is_dominated || ((link & Graph::kDominated) == 0 && estimates[i] >= estimate &&
                         by_newcomer[i] >= estimate);
  }
  constexpr float kGone = -2.0F;  // below any estimate
  float lowest = std::numeric_limits<float>::infinity();
  if (is_dominated) lowest = estimate;
  std::size_t victim = slots.size();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    bool dominated =
        (links[i].load(std::memory_order_relaxed) & Graph::kDominated) != 0;
    if (!dominated && !is_dominated && estimates[i] < estimate &&
        by_newcomer[i] >= estimates[i]) {
      dominated = true;
      links[i].store(slots[i] | Graph::kDominated, std::memory_order_relaxed);
    }
    const bool gone = !rows.has_vector(slots[i]);
    const float rank = gone ? kGone : estimates[i];
    if ((dominated || gone) && rank < lowest) {
      lowest = rank;
      victim = i;
    }
  }
  if (victim == slots.size()) return;  // the newcomer is the one to go
  links[victim].store(newcomer.slot() | (is_dominated ? Graph::kDominated : 0),
                      std::memory_order_release);
}

// Takes a slot whose row was replaced out of the graph, so that its old place keeps no
// links to its new row: those who link to it are looked for among its neighbours and
// theirs, and each gets some of its neighbours instead (in the manner of Xu et al.,
// "In-Place Updates of a Graph Index for Streaming Approximate Nearest Neighbor
// Search", 2025).
void GraphLinker::unlink(Graph& graph, const RowTable& rows, Slot slot) {
  const int top = graph.level_of(slot);
  std::vector<Slot> candidates;
  std::vector<Slot> second;
  for (int level = 0; level <= top; ++level) {
    candidates.resize(graph.degree(level));
    candidates.resize(graph.copy_links(slot, level, candidates.data()));
    second.resize(graph.degree(level));
    std::vector<Slot> linkers = candidates;
    for (const Slot candidate : candidates) {
      const std::size_t count = graph.copy_links(candidate, level, second.data());
      linkers.insert(linkers.end(), second.begin(),
                     second.begin() + static_cast<std::ptrdiff_t>(count));
    }
    std::sort(linkers.begin(), linkers.end());
    linkers.erase(std::unique(linkers.begin(), linkers.end()), linkers.end());
    for (const Slot linker : linkers) {
      if (linker != slot) repair(graph, rows, linker, slot, level, candidates);
    }
  }
}

void GraphLinker::repair(Graph& graph, const RowTable& rows, Slot linker, Slot lost,
                         int level, std::span<const Slot> candidates) {
  auto& [slots, estimates, by_newcomer, near, chosen] = relink_;
  const std::size_t most = graph.degree(level);
  slots.resize(most);
  slots.resize(graph.copy_links(linker, level, slots.data()));
  const auto at = std::find(slots.begin(), slots.end(), lost);
  if (at == slots.end()) return;
  slots.erase(at);
  std::vector<Slot> fresh;
  for (const Slot candidate : candidates) {
    const bool is_new = candidate != linker && candidate != lost &&
                        rows.has_vector(candidate) &&
                        std::find(slots.begin(), slots.end(), candidate) == slots.end();
    if (is_new) fresh.push_back(candidate);
  }
  const EncodedQuery& query = as_query(rows, linker);
  estimate(rows, query, fresh, estimates);
  near.clear();
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    near.emplace_back(estimates[i], fresh[i]);
  }
  std::sort(near.begin(), near.end(), nearer);
  if (near.size() > kMostCandidates) {
    near.erase(near.begin() + kMostCandidates, near.end());
  }
  if (slots.size() + near.size() > most) {
    estimate(rows, query, slots, estimates);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (rows.has_vector(slots[i])) near.emplace_back(estimates[i], slots[i]);
    }
    std::sort(near.begin(), near.end(), nearer);
    diversify(rows, near, most, chosen);
    set_links(graph, linker, level, chosen);
    return;
  }
  for (const Near& candidate : near) slots.push_back(candidate.slot());
  graph.set_links(linker, level, slots.data(), slots.size());
}

}  // namespace vecall

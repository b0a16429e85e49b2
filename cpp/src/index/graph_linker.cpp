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
// Rows of a batch that join those that a search found: as many as good as copies, and
// as many of one estimate.
constexpr std::size_t kMostCopies = 8;
constexpr std::size_t kMostEqual = 2;

bool nearer(const GraphSearch::Entry& a, const GraphSearch::Entry& b) noexcept {
  if (a.estimate != b.estimate) return a.estimate > b.estimate;
  return a.slot() < b.slot();
}

}  // namespace

void GraphLinker::choose(const Graph& graph, const RowTable& rows,
                         std::uint32_t ef_construction, std::size_t row,
                         LinkBatch& batch) {
  auto& [search, query, nearness, near, chosen] = choose_;
  query.from_row(rows.space(), batch.codes(row), batch.factors()[row]);
  nearness.resize(row + 1);
  kernels::active().scan(query.code(), batch.codes(0), batch.factors(), row + 1,
                         nearness.data());
  const std::span<const float> before = std::span(nearness).first(row);
  const Breadth breadth{ef_construction, kCopy * nearness[row]};
  const Graph::Entry entry = graph.entry();
  const int reach = entry.slot == kNoSlot ? -1 : entry.level;
  const int top = batch.height(row) - 1;
  if (reach >= 0) search.descend(graph, rows, query, top);
  for (int level = top; level >= 0; --level) {
    near.clear();
    if (level <= reach) {
      if (level == 0) search.add_landmarks(graph, rows, query);
      search.search(graph, rows, query, level, breadth.ef, breadth.copy, 0);
      for (const Near& found : search.pool()) {
        if (batch.is_relinked(found.slot()) || !rows.has_vector(found.slot())) continue;
        near.emplace_back(found.estimate, found.slot());
      }
    }
    add_of_batch(rows, batch, level, before, breadth, near);
    diversify(rows, near, graph.m(), chosen);
    for (std::size_t i = 0; i < chosen.rows.size(); ++i) {
      const Slot mark = i >= chosen.diverse ? Graph::kDominated : 0;
      batch.choose({chosen.rows[i].slot() | mark, chosen.rows[i].estimate,
                    static_cast<std::uint32_t>(row), level});
    }
  }
}

void GraphLinker::add_of_batch(const RowTable& rows, const LinkBatch& batch, int level,
                               std::span<const float> nearness, const Breadth& breadth,
                               std::vector<Near>& near) {
  auto& [positions, found] = add_of_batch_;
  positions.resize(nearness.size());
  const float least = near.size() < breadth.ef ? -std::numeric_limits<float>::infinity()
                                               : near.back().estimate;
  const std::size_t good = kernels::active().at_least(nearness.data(), nearness.size(),
                                                      least, positions.data());
  found.clear();
  for (std::size_t i = 0; i < good; ++i) {
    const std::uint32_t row = positions[i];
    if (batch.height(row) <= level || !rows.has_vector(batch.slot(row))) continue;
    found.emplace_back(nearness[row], row);
  }
  // Of equal rows the last ones: a chain of links then leads through all of them.
  std::sort(found.begin(), found.end(), [](const Near& a, const Near& b) {
    return a.estimate != b.estimate ? a.estimate > b.estimate : a.slot() > b.slot();
  });
  std::size_t copies = 0;
  std::size_t equals = 0;
  const auto of_graph = static_cast<std::ptrdiff_t>(near.size());
  const std::size_t most = near.size() + breadth.ef;
  for (std::size_t i = 0; i < found.size() && near.size() < most; ++i) {
    equals = i > 0 && found[i].estimate == found[i - 1].estimate ? equals + 1 : 0;
    if (equals >= kMostEqual) continue;
    if (found[i].estimate >= breadth.copy && copies++ >= kMostCopies) continue;
    near.emplace_back(found[i].estimate, batch.slot(found[i].slot()));
  }
  std::inplace_merge(
      near.begin(), near.begin() + of_graph, near.end(),
      [](const Near& a, const Near& b) { return a.estimate > b.estimate; });
  if (near.size() > breadth.ef) {
    near.erase(near.begin() + static_cast<std::ptrdiff_t>(breadth.ef), near.end());
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

void GraphLinker::link_back(Graph& graph, const RowTable& rows, const LinkBatch& batch,
                            const LinkBatch::Link& link) {
  auto& [query, slots, estimates, by_newcomer, near, chosen] = relink_;
  const Slot from = link.chosen & ~Graph::kDominated;
  const Near newcomer{link.estimate, batch.slot(link.row)};
  const int level = link.level;
  const std::size_t most = graph.degree(level);
  Graph::Link* links = graph.links(from, level);
  slots.clear();
  bool any_dominated = false;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot other = links[i].load(std::memory_order_relaxed);
    if (other == kNoSlot) break;
    any_dominated = any_dominated || (other & Graph::kDominated) != 0;
    slots.push_back(other & ~Graph::kDominated);
    if (slots.back() == newcomer.slot()) return;
  }
  if (slots.size() < most) {
    links[slots.size()].store(newcomer.slot(), std::memory_order_release);
    return;
  }
  estimate(rows, as_query(rows, from), slots, estimates);
  if (any_dominated) {
    query.from_row(rows.space(), batch.codes(link.row), batch.factors()[link.row]);
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
  auto& [of_newcomer, slots, estimates, by_newcomer, near, chosen] = relink_;
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

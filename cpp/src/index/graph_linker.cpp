#include "index/graph_linker.hpp"

#include <algorithm>
#include <limits>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

// Of its estimate of itself, what a row estimates of another that is as good as a copy.
constexpr float kCopy = 0.999F;
constexpr std::size_t kMostCandidates =
    4;  // links that may replace one to a row that is gone

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
  if (entry.slot == Graph::kNoSlot) {
    graph.set_linked(slot);
    graph.set_entry({slot, level});
    return;
  }
  query_.from_row(rows.space(), rows.high(slot), rows.factor(slot));
  const float copy = kCopy * estimate_of(rows, slot);
  search_.descend(graph, rows, query_, level);
  for (int at = std::min(level, entry.level); at >= 0; --at) {
    if (at == 0) search_.add_landmarks(graph, rows, query_);
    search_.search(graph, rows, query_, at, ef_construction, copy);
    link_level(graph, rows, slot, at);
  }
  graph.set_linked(slot);
  if (level > entry.level) graph.set_entry({slot, level});
}

void GraphLinker::link_level(Graph& graph, const RowTable& rows, Slot slot, int level) {
  near_.clear();
  for (const Near& found : search_.pool()) {
    if (found.slot() != slot && rows.has_vector(found.slot())) {
      near_.emplace_back(found.estimate, found.slot());
    }
  }
  diversify(rows, graph.m());
  set_chosen(graph, slot, level);
  const std::vector<Near> chosen = chosen_;
  for (const Near& other : chosen) {
    link_back(graph, rows, other.slot(), slot, other.estimate, level);
  }
}

// What query_ makes of a row.
float GraphLinker::estimate_of(const RowTable& rows, Slot slot) const noexcept {
  const std::uint8_t* codes = rows.high(slot);
  float estimate = 0;
  kernels::active().gather(query_.code(), &codes, rows.factors(slot), 1, &estimate);
  return estimate;
}

void GraphLinker::estimate_from(const RowTable& rows, Slot slot,
                                const std::vector<Slot>& others,
                                std::vector<float>& estimates) {
  other_.from_row(rows.space(), rows.high(slot), rows.factor(slot));
  estimate_by(other_, rows, others, estimates);
}

void GraphLinker::estimate_by(const EncodedQuery& query, const RowTable& rows,
                              const std::vector<Slot>& others,
                              std::vector<float>& estimates) {
  codes_.clear();
  factors_.clear();
  for (const Slot other : others) {
    codes_.push_back(rows.high(other));
    factors_.push_back(rows.factor(other));
  }
  estimates.resize(others.size());
  kernels::active().gather(query.code(), codes_.data(), factors_.data(), others.size(),
                           estimates.data());
}

// The heuristic of Malkov and Yashunin (their algorithm 4, pruned connections
// included): a row is chosen unless one that was chosen before is nearer to it than it
// is to the middle; what room is left goes to the nearest of the others.
void GraphLinker::diversify(const RowTable& rows, std::size_t most) {
  chosen_.clear();
  if (near_.size() <= most) {
    chosen_ = near_;
    diverse_ = chosen_.size();
    return;
  }
  dominated_.assign(near_.size(), 0);
  for (std::size_t i = 0; i < near_.size() && chosen_.size() < most; ++i) {
    if (dominated_[i] != 0) continue;
    chosen_.push_back(near_[i]);
    slots_.clear();
    for (std::size_t j = i + 1; j < near_.size(); ++j) {
      if (dominated_[j] == 0) slots_.push_back(near_[j].slot());
    }
    if (slots_.empty()) break;
    estimate_from(rows, near_[i].slot(), slots_, estimates_);
    std::size_t at = 0;
    for (std::size_t j = i + 1; j < near_.size(); ++j) {
      if (dominated_[j] != 0) continue;
      if (estimates_[at++] >= near_[j].estimate) dominated_[j] = 1;
    }
  }
  diverse_ = chosen_.size();
  for (std::size_t i = 0; i < near_.size() && chosen_.size() < most; ++i) {
    if (dominated_[i] != 0) chosen_.push_back(near_[i]);
  }
}

void GraphLinker::set_chosen(Graph& graph, Slot slot, int level) {
  list_.clear();
  for (const Near& other : chosen_) {
    const bool dominated = list_.size() >= diverse_;
    list_.push_back(other.slot() | (dominated ? Graph::kDominated : 0));
  }
  graph.set_links(slot, level, list_.data(), list_.size());
}

void GraphLinker::link_back(Graph& graph, const RowTable& rows, Slot from, Slot to,
                            float estimate, int level) {
  const std::size_t most = graph.degree(level);
  Graph::Link* links = graph.links(from, level);
  list_.clear();
  bool any_dominated = false;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot link = links[i].load(std::memory_order_relaxed);
    if (link == Graph::kNoSlot) break;
    any_dominated = any_dominated || (link & Graph::kDominated) != 0;
    list_.push_back(link & ~Graph::kDominated);
    if (list_.back() == to) return;
  }
  if (list_.size() < most) {
    links[list_.size()].store(to, std::memory_order_release);
    return;
  }
  estimate_from(rows, from, list_, estimates_);
  if (any_dominated) {
    replace_one(rows, links, to, estimate);
    return;
  }
  near_.clear();
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (rows.has_vector(list_[i])) near_.emplace_back(estimates_[i], list_[i]);
  }
  near_.emplace_back(estimate, to);
  std::sort(near_.begin(), near_.end(), nearer);
  diversify(rows, most);
  set_chosen(graph, from, level);
}

// The choice of diversify() for a full list and one newcomer, from what is known of the
// list: of the rows that another one dominates the farthest goes, else the farthest of
// all. REQUIRES: list_ and estimates_ are the list's; query_ is the newcomer.
void GraphLinker::replace_one(const RowTable& rows, Graph::Link* links, Slot to,
                              float estimate) {
  VECALL_ASSERT(list_.size() == estimates_.size());
  estimate_by(query_, rows, list_, near_new_);
  bool is_dominated = false;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const Slot link = links[i].load(std::memory_order_relaxed);
    is_dominated =
        is_dominated || ((link & Graph::kDominated) == 0 && estimates_[i] >= estimate &&
                         near_new_[i] >= estimate);
  }
  constexpr float kGone = -2.0F;  // below any estimate
  float lowest = std::numeric_limits<float>::infinity();
  if (is_dominated) lowest = estimate;
  std::size_t victim = list_.size();
  for (std::size_t i = 0; i < list_.size(); ++i) {
    bool dominated =
        (links[i].load(std::memory_order_relaxed) & Graph::kDominated) != 0;
    if (!dominated && !is_dominated && estimates_[i] < estimate &&
        near_new_[i] >= estimates_[i]) {
      dominated = true;
      links[i].store(list_[i] | Graph::kDominated, std::memory_order_relaxed);
    }
    const bool gone = !rows.has_vector(list_[i]);
    const float rank = gone ? kGone : estimates_[i];
    if ((dominated || gone) && rank < lowest) {
      lowest = rank;
      victim = i;
    }
  }
  if (victim == list_.size()) return;  // the newcomer is the one to go
  links[victim].store(to | (is_dominated ? Graph::kDominated : 0),
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
  for (int level = 0; level <= top; ++level) {
    candidates.resize(graph.degree(level));
    candidates.resize(graph.copy_links(slot, level, candidates.data()));
    second_.resize(graph.degree(level));
    std::vector<Slot> linkers = candidates;
    for (const Slot candidate : candidates) {
      const std::size_t count = graph.copy_links(candidate, level, second_.data());
      linkers.insert(linkers.end(), second_.begin(),
                     second_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    std::sort(linkers.begin(), linkers.end());
    linkers.erase(std::unique(linkers.begin(), linkers.end()), linkers.end());
    for (const Slot linker : linkers) {
      if (linker != slot) {
        repair(graph, rows, linker, slot, level, candidates.data(), candidates.size());
      }
    }
  }
}

void GraphLinker::repair(Graph& graph, const RowTable& rows, Slot linker, Slot lost,
                         int level, const Slot* candidates,
                         std::size_t candidate_count) {
  const std::size_t most = graph.degree(level);
  list_.resize(most);
  list_.resize(graph.copy_links(linker, level, list_.data()));
  const auto at = std::find(list_.begin(), list_.end(), lost);
  if (at == list_.end()) return;
  list_.erase(at);
  std::vector<Slot> fresh;
  for (std::size_t i = 0; i < candidate_count; ++i) {
    const Slot candidate = candidates[i];
    const bool is_new = candidate != linker && candidate != lost &&
                        rows.has_vector(candidate) &&
                        std::find(list_.begin(), list_.end(), candidate) == list_.end();
    if (is_new) fresh.push_back(candidate);
  }
  estimate_from(rows, linker, fresh, estimates_);
  near_.clear();
  for (std::size_t i = 0; i < fresh.size(); ++i)
    near_.emplace_back(estimates_[i], fresh[i]);
  std::sort(near_.begin(), near_.end(), nearer);
  if (near_.size() > kMostCandidates)
    near_.erase(near_.begin() + kMostCandidates, near_.end());
  if (list_.size() + near_.size() > most) {
    estimate_from(rows, linker, list_, estimates_);
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (rows.has_vector(list_[i])) near_.emplace_back(estimates_[i], list_[i]);
    }
    std::sort(near_.begin(), near_.end(), nearer);
    diversify(rows, most);
    set_chosen(graph, linker, level);
    return;
  }
  for (const Near& candidate : near_) list_.push_back(candidate.slot());
  graph.set_links(linker, level, list_.data(), list_.size());
}

}  // namespace vecall

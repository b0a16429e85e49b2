#include "index/graph_search.hpp"

namespace vecall {

namespace {

constexpr std::size_t kMostCompared = 2048;  // at least the longest list

}  // namespace

void GraphSearch::begin(const RowTable& rows, std::size_t ef) {
  visited_.assign((rows.slots() + 63) / 64, 0);
  pool_.reserve(ef + 1);
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
    if (link == Graph::kNobody) break;
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

void GraphSearch::descend(const Graph& graph, const RowTable& rows,
                          const EncodedQuery& query, int level) {
  slots_.resize(kMostCompared);
  codes_.resize(kMostCompared);
  factors_.resize(kMostCompared);
  estimates_.resize(kMostCompared);
  positions_.resize(kMostCompared);
  const Graph::Entry entry = graph.entry();
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

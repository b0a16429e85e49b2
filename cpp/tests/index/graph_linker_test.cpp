// What linking promises of a graph: lists of slots that are linked, none twice and none
// of the slot itself, and a way from every row to its nearest others.

#include "index/graph_linker.hpp"

#include <doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "index/graph_search.hpp"
#include "index/index_support.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr std::uint32_t kBreadth = 60;

void link(GraphLinker& linker, Graph& graph, const RowTable& rows, Slot slot) {
  graph.make_room(rows, 1);
  linker.link(graph, rows, slot, kBreadth);
  graph.add_entrances(rows, slot);
}

std::vector<Slot> links_of(const Graph& graph, Slot slot, int level) {
  std::vector<Slot> links(graph.degree(level));
  links.resize(graph.copy_links(slot, level, links.data()));
  return links;
}

void check_lists(const Graph& graph, Slot slots) {
  for (Slot slot = 0; slot < slots; ++slot) {
    REQUIRE(graph.is_linked(slot));
    for (int level = 0; level <= graph.level_of(slot); ++level) {
      const auto links = links_of(graph, slot, level);
      const std::set<Slot> different(links.begin(), links.end());
      REQUIRE(different.size() == links.size());
      REQUIRE_FALSE(different.contains(slot));
      for (const Slot other : links) {
        REQUIRE(graph.is_linked(other));
        REQUIRE(graph.level_of(other) >= level);
      }
    }
  }
}

// Of the 10 rows nearest to each of 20 queries, the share that a search finds.
double recall_of(const Graph& graph, const RowTable& rows,
                 const std::vector<std::uint64_t>& numbers) {
  GraphSearch search;
  EncodedQuery query;
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const Vector unit = unit_vector(50'000 + i, kDim);
    std::vector<std::pair<double, Slot>> all;
    for (Slot slot = 0; slot < numbers.size(); ++slot) {
      all.emplace_back(-cosine(unit, unit_vector(numbers[slot], kDim)), slot);
    }
    std::sort(all.begin(), all.end());
    query.encode(rows.space(), unit);
    search.descend(graph, rows, query, 0);
    search.search(graph, rows, query, 0, 100, 2.0F, {});
    for (std::size_t at = 0; at < 10; ++at) {
      found +=
          std::any_of(search.pool().begin(), search.pool().end(),
                      [&](const auto& entry) { return entry.slot() == all[at].second; })
              ? 1
              : 0;
    }
  }
  return static_cast<double>(found) / 200.0;
}

}  // namespace

TEST_CASE("the first row is the entry, the second and the first link to each other") {
  VectorRows rows(kDim);
  Graph graph(4);
  GraphLinker linker;
  rows.add(0);
  link(linker, graph, rows.table(), 0);
  CHECK(graph.entry().slot == 0);
  CHECK(links_of(graph, 0, 0).empty());
  rows.add(1);
  link(linker, graph, rows.table(), 1);
  CHECK(links_of(graph, 0, 0) == std::vector<Slot>{1});
  CHECK(links_of(graph, 1, 0) == std::vector<Slot>{0});
  CHECK(graph.entry().level == std::max(graph.level_of(0), graph.level_of(1)));
}

TEST_CASE("a search ends where what is left is farther than its hits") {
  VectorRows rows(kDim);
  Graph graph(5);
  GraphLinker linker;
  for (Slot slot = 0; slot < 400; ++slot) {
    rows.add(slot);
    link(linker, graph, rows.table(), slot);
  }
  GraphSearch search;
  EncodedQuery query;
  const Vector unit = unit_vector(50'000, kDim);
  query.encode(rows.table().space(), unit);
  const auto met = [&](const GraphSearch::End& end) {
    search.descend(graph, rows.table(), query, 0);
    search.search(graph, rows.table(), query, 0, 100, 2.0F, end);
    return search.met();
  };
  const auto all = met({});
  CHECK(met({10, 1.0F, 0, {}}).size() < all.size());
  // Not where so many entries are expanded anyway, where no distance is too far, or
  // where all estimates may be as good as that of the last hit.
  CHECK(met({10, 1.0F, 1'000, {}}) == all);
  CHECK(met({10, 1'000.0F, 0, {}}) == all);
  CHECK(met({10, 1.0F, 0, {1.0F, 0.0F, 4.0F, 4.0F}}) == all);
}

TEST_CASE("lists are sound and searches find, for short lists and long ones") {
  for (const std::uint32_t m : {2U, 5U, 16U, 256U}) {
    CAPTURE(m);
    VectorRows rows(kDim);
    Graph graph(m);
    GraphLinker linker;
    std::vector<std::uint64_t> numbers;
    for (Slot slot = 0; slot < 600; ++slot) {
      numbers.push_back(slot);
      REQUIRE(rows.add(slot) == slot);
      link(linker, graph, rows.table(), slot);
    }
    check_lists(graph, 600);
    CHECK(recall_of(graph, rows.table(), numbers) > (m == 2 ? 0.5 : 0.9));
  }
}

TEST_CASE("a slot that is linked again leaves its old place") {
  VectorRows rows(kDim);
  Graph graph(6);
  GraphLinker linker;
  std::vector<std::uint64_t> numbers;
  for (Slot slot = 0; slot < 500; ++slot) {
    numbers.push_back(slot);
    rows.add(slot);
    link(linker, graph, rows.table(), slot);
  }
  for (Slot slot = 0; slot < 500; slot += 2) {
    graph.copies().remove(rows.table(), slot);
    rows.table().release(slot);
    numbers[slot] = 10'000 + slot;
    REQUIRE(rows.add(numbers[slot]) == slot);
    link(linker, graph, rows.table(), slot);
  }
  check_lists(graph, 500);
  CHECK(recall_of(graph, rows.table(), numbers) > 0.9);
}

TEST_CASE("lists are sound where half of the rows are copies of one") {
  VectorRows rows(kDim);
  Graph graph(5);
  GraphLinker linker;
  for (Slot slot = 0; slot < 400; ++slot) {
    rows.add(slot < 200 ? 7 : slot);
    link(linker, graph, rows.table(), slot);
  }
  check_lists(graph, 400);
}

TEST_CASE("a linker serves one graph after another") {
  VectorRows rows(kDim);
  for (Slot slot = 0; slot < 120; ++slot) rows.add(slot);
  GraphLinker used;
  Graph other(9);
  for (Slot slot = 0; slot < 120; ++slot) link(used, other, rows.table(), slot);
  Graph first(4);
  Graph second(4);
  GraphLinker fresh;
  for (Slot slot = 0; slot < 120; ++slot) {
    link(used, first, rows.table(), slot);
    link(fresh, second, rows.table(), slot);
  }
  for (Slot slot = 0; slot < 120; ++slot) {
    for (int level = 0; level <= first.level_of(slot); ++level) {
      REQUIRE(links_of(first, slot, level) == links_of(second, slot, level));
    }
  }
}

}  // namespace vecall::testing

// What linking promises of a graph: lists of slots that are linked, none twice and none
// of the slot itself, and a way from every row to its nearest others.

#include "index/graph_linker.hpp"

#include <doctest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <vector>

#include "index/graph_search.hpp"
#include "index/index_support.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr std::uint32_t kBreadth = 60;

// Links slots together.
void link(GraphLinker& linker, Graph& graph, const RowTable& rows,
          const std::vector<Slot>& slots, bool backwards = false) {
  LinkBatch batch;
  batch.begin(graph, rows, slots);
  link_batch(batch, graph, rows, linker, kBreadth, backwards);
  for (const Slot slot : slots) graph.add_entrances(rows, slot);
}
void link(GraphLinker& linker, Graph& graph, const RowTable& rows, Slot slot) {
  link(linker, graph, rows, std::vector<Slot>{slot});
}

std::vector<Slot> slots_from(Slot begin, Slot end) {
  std::vector<Slot> slots(end - begin);
  std::iota(slots.begin(), slots.end(), begin);
  return slots;
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
    search.search(graph, rows, query, 0, 100, 2.0F, 0);
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

TEST_CASE("rows that are linked together find each other as rows one by one do") {
  for (const std::uint32_t m : {2U, 5U, 16U, 256U}) {
    CAPTURE(m);
    VectorRows rows(kDim);
    std::vector<std::uint64_t> numbers;
    for (Slot slot = 0; slot < 600; ++slot) {
      numbers.push_back(slot);
      rows.add(slot);
    }
    Graph graph(m);
    GraphLinker linker;
    link(linker, graph, rows.table(), slots_from(0, 500));  // none is there before
    link(linker, graph, rows.table(), slots_from(500, 600));
    check_lists(graph, 600);
    CHECK(recall_of(graph, rows.table(), numbers) > (m == 2 ? 0.5 : 0.9));
  }
}

TEST_CASE("a batch of one topic is linked by itself, and no search leaves it out") {
  VectorRows rows(kDim);
  std::vector<Slot> topic;
  for (Slot slot = 0; slot < 400; ++slot) {
    Vector vector = unit_vector(slot, kDim);
    if (slot >= 300) {
      for (float& value : vector) value *= 0.05F;
      vector[0] += 1.0F;
      topic.push_back(slot);
    }
    rows.add(slot, vector);
  }
  Graph graph(8);
  GraphLinker linker;
  for (Slot slot = 0; slot < 300; ++slot) link(linker, graph, rows.table(), slot);
  link(linker, graph, rows.table(), topic);
  check_lists(graph, 400);
  GraphSearch search;
  EncodedQuery query;
  for (const Slot slot : topic) {
    query.from_row(rows.space(), rows.table().high(slot), rows.table().factor(slot));
    search.descend(graph, rows.table(), query, 0);
    search.add_landmarks(graph, rows.table(), query);
    search.search(graph, rows.table(), query, 0, 60, 2.0F, 0);
    CHECK(std::any_of(search.pool().begin(), search.pool().end(),
                      [&](const auto& entry) { return entry.slot() == slot; }));
  }
}

TEST_CASE("the order in which the parts of a batch are done does not show") {
  VectorRows rows(kDim);
  for (Slot slot = 0; slot < 700; ++slot) rows.add(slot % 300);
  std::deque<Graph> graphs;
  for (int way = 0; way < 2; ++way) {
    Graph& graph = graphs.emplace_back(5);
    GraphLinker linker;
    for (Slot at = 0; at < 700; at += 100) {
      link(linker, graph, rows.table(), slots_from(at, at + 100), way == 1);
    }
    // Slots that are linked again, next to one that is new.
    std::vector<Slot> again = {5, 600, 17, 699};
    link(linker, graph, rows.table(), again, way == 1);
    check_lists(graph, 700);
  }
  CHECK(graphs[0].entry().slot == graphs[1].entry().slot);
  for (Slot slot = 0; slot < 700; ++slot) {
    for (int level = 0; level <= graphs[0].level_of(slot); ++level) {
      REQUIRE(links_of(graphs[0], slot, level) == links_of(graphs[1], slot, level));
    }
  }
}

}  // namespace vecall::testing

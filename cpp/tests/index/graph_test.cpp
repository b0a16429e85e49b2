// The lists of a graph: their ends, their growth, and the levels of slots.

#include "index/graph.hpp"

#include <doctest.h>

#include <random>
#include <vector>

namespace vecall::testing {

namespace {

std::vector<Slot> links_of(const Graph& graph, Slot slot, int level) {
  std::vector<Slot> links(graph.degree(level));
  links.resize(graph.copy_links(slot, level, links.data()));
  return links;
}

}  // namespace

TEST_CASE("a list holds what was set last, also when the graph grows") {
  Graph graph(5);
  CHECK(graph.entry().slot == kNoSlot);
  CHECK_FALSE(graph.is_linked(0));
  std::mt19937_64 random(13);
  std::vector<std::vector<Slot>> model;
  for (const Slot slots : {Slot{100}, Slot{4096}, Slot{4097}, Slot{20'000}}) {
    graph.reserve(slots, 0);
    while (model.size() < slots) {
      const auto slot = static_cast<Slot>(model.size());
      REQUIRE(links_of(graph, slot, 0).empty());
      std::vector<Slot> links(random() % (graph.degree(0) + 1));
      for (Slot& link : links) link = static_cast<Slot>(random() % 100'000);
      graph.set_links(slot, 0, links.data(), links.size());
      model.push_back(links);
    }
    for (Slot slot = 0; slot < slots; ++slot) {
      REQUIRE(links_of(graph, slot, 0) == model[slot]);
    }
  }
  graph.set_links(3, 0, nullptr, 0);
  CHECK(links_of(graph, 3, 0).empty());
}

TEST_CASE("the mark of a dominated link is no part of the slot") {
  Graph graph(4);
  graph.reserve(1, 0);
  const std::vector<Slot> links = {7 | Graph::kDominated, 8};
  graph.set_links(0, 0, links.data(), links.size());
  CHECK(links_of(graph, 0, 0) == std::vector<Slot>{7, 8});
  CHECK(graph.links(0, 0)[0].load() == links[0]);
  CHECK(graph.links(0, 0)[2].load() == kNoSlot);
}

TEST_CASE("a slot rises as far as its level says, with lists of its own") {
  constexpr Slot kSlots = 6000;
  Graph graph(3);
  std::size_t risen = 0;
  std::size_t lists = 0;
  for (Slot slot = 0; slot < kSlots; ++slot) {
    const int level = graph.level_of(slot);
    REQUIRE(level >= 0);
    REQUIRE(level < Graph::kMostLevels);
    risen += level > 0 ? 1 : 0;
    lists += static_cast<std::size_t>(level);
  }
  CHECK(risen > kSlots / 4);  // one in three
  CHECK(risen < kSlots / 2);
  graph.reserve(kSlots, lists);
  for (Slot slot = 0; slot < kSlots; ++slot) {
    const int highest = graph.level_of(slot);
    if (highest == 0) continue;
    graph.add_upper_levels(slot);
    graph.add_upper_levels(slot);  // it has them: nothing happens
    for (int level = 1; level <= highest; ++level) {
      REQUIRE(links_of(graph, slot, level).empty());
      const Slot link = slot * 16 + static_cast<Slot>(level);
      graph.set_links(slot, level, &link, 1);
    }
  }
  for (Slot slot = 0; slot < kSlots; ++slot) {
    for (int level = 1; level <= graph.level_of(slot); ++level) {
      const std::vector<Slot> expected = {slot * 16 + static_cast<Slot>(level)};
      REQUIRE(links_of(graph, slot, level) == expected);
    }
  }
}

TEST_CASE("the entry keeps slot and level together") {
  Graph graph(8);
  graph.reserve(10, 0);
  graph.set_entry({9, 5});
  CHECK(graph.entry().slot == 9);
  CHECK(graph.entry().level == 5);
  graph.set_linked(9);
  CHECK(graph.is_linked(9));
  CHECK_FALSE(graph.is_linked(8));
  CHECK_FALSE(graph.is_linked(1'000'000));  // beyond all chunks
}

}  // namespace vecall::testing

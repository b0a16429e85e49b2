#include "index/graph_snapshot.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "vecall/assert.hpp"

namespace vecall {

namespace {

// How many chunks hold so many slots.
std::size_t chunks_of(std::size_t slots) noexcept {
  return (slots + kChunkRows - 1) / kChunkRows;
}

// As of rows that were linked in the order of their slots.
void fill_copies(const Graph& graph, const RowTable& rows, Copies& copies) {
  copies.reserve(rows.slots());
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    if (graph.is_linked(slot) && rows.has_vector(slot)) copies.add(rows, slot);
  }
}

}  // namespace

void GraphSnapshot::save(const GraphIndex& index, const RowTable& rows,
                         bool with_copies, SnapshotWriter& writer) {
  VECALL_ASSERT(index.ready());
  const Graph& graph = *index.graph_;
  const std::size_t slots = rows.slots();
  const std::size_t degree = graph.degree(0);
  auto* links = writer.add_array<Slot>(Section::kLinks, slots * degree);
  std::fill_n(links, slots * degree, kNoSlot);
  std::size_t lists = 0;
  for (Slot slot = 0; slot < slots; ++slot) {
    if (!graph.is_linked(slot)) continue;
    graph.copy_links(slot, 0, links + slot * degree);
    lists += static_cast<std::size_t>(graph.level_of(slot));
  }
  auto* upper = writer.add_array<Slot>(Section::kUpperLinks, lists * graph.m());
  std::fill_n(upper, lists * graph.m(), kNoSlot);
  for (Slot slot = 0; slot < slots; ++slot) {
    const int top = graph.is_linked(slot) ? graph.level_of(slot) : 0;
    for (int level = 1; level <= top; ++level, upper += graph.m()) {
      graph.copy_links(slot, level, upper);
    }
  }
  if (with_copies) {
    Copies copies;
    fill_copies(graph, rows, copies);
    const std::size_t count = chunks_of(slots) * kChunkRows * Copies::kNumbers;
    copies.save({writer.add_array<std::uint16_t>(Section::kCopies, count), count});
  }
  const Graph::Entry entry = graph.entry();
  writer.header().has_graph = 1;
  writer.header().entry = entry.slot;
  writer.header().entry_level = static_cast<std::uint32_t>(entry.level);
}

// `heights` has of each slot how many lists it has, 0 where it is not linked.
void GraphSnapshot::restore_list(std::span<const std::uint8_t> heights,
                                 const Slot* list, Slot slot, int level, Graph& graph) {
  const std::size_t most = graph.degree(level);
  std::size_t count = 0;
  for (; count < most && list[count] != kNoSlot; ++count) {
    const Slot other = list[count];
    if (other >= heights.size() || other == slot || heights[other] <= level) {
      refuse_snapshot("a link leads to nowhere");
    }
  }
  graph.set_links(slot, level, list, count);
}

void GraphSnapshot::restore(const SnapshotReader& reader, RowTable& rows,
                            GraphIndex& index) {
  const SnapshotHeader& header = reader.header();
  const std::size_t slots = header.slots;
  const auto flags = reader.array<std::uint8_t>(Section::kFlags, slots);
  const std::size_t degree = 2 * std::size_t{index.options_.m};
  const auto links = reader.array<Slot>(Section::kLinks, slots * degree);
  const std::size_t all = reader.count<Slot>(Section::kUpperLinks);
  const auto upper = reader.verified<Slot>(Section::kUpperLinks, all);
  const bool mapped = reader.stays_mapped();
  auto graph =
      std::make_unique<Graph>(index.options_.m, mapped ? links.data() : nullptr);
  std::vector<std::uint8_t> heights(slots);
  for (Slot slot = 0; slot < slots; ++slot) {
    if ((flags[slot] & kFlagLinked) == 0) continue;
    heights[slot] = static_cast<std::uint8_t>(1 + graph->level_of(slot));
  }
  std::size_t at = 0;
  for (Slot slot = 0; slot < slots; ++slot) {
    if (heights[slot] == 0) continue;
    graph->reserve(slots, heights[slot] - std::size_t{1});
    if (!mapped) restore_list(heights, links.data() + slot * degree, slot, 0, *graph);
    if (heights[slot] > 1) graph->add_upper_levels(slot);
    for (int level = 1; level < heights[slot]; ++level, at += graph->m()) {
      if (graph->m() > all - at) refuse_snapshot("links of a level are missing");
      restore_list(heights, upper.data() + at, slot, level, *graph);
    }
    graph->set_linked(slot);
  }
  if (at != all) refuse_snapshot("links of no row");
  if (header.entry != kNoSlot) {
    if (!graph->is_linked(header.entry) || header.entry >= slots ||
        graph->level_of(header.entry) != static_cast<int>(header.entry_level)) {
      refuse_snapshot("the graph's entry is no row of it");
    }
    graph->set_entry({header.entry, static_cast<int>(header.entry_level)});
  }
  index.tail_.reserve(rows.vectors());
  for (Slot slot = 0; slot < slots; ++slot) {
    const bool linked = (flags[slot] & (kFlagLinked | kFlagPending)) == kFlagLinked;
    if (!rows.has_vector(slot)) {
      if (linked) ++index.churn_;
    } else if (!linked || header.entry == kNoSlot) {
      index.tail_.add(slot, rows);
    }
  }
  restore_entrances(reader, rows, *graph);
  graph->reserve(slots, 0);
  index.graph_ = std::move(graph);
}

void GraphSnapshot::restore_entrances(const SnapshotReader& reader,
                                      const RowTable& rows, Graph& graph) {
  std::vector<Slot> sample;
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    if (graph.is_linked(slot) && graph.landmarks().may_want(slot)) {
      sample.push_back(slot);
    }
  }
  graph.landmarks().take(rows, std::move(sample));
  if (!reader.stays_mapped() || !reader.has(Section::kCopies)) {
    fill_copies(graph, rows, graph.copies());
    return;
  }
  const std::size_t count = chunks_of(rows.slots()) * kChunkRows * Copies::kNumbers;
  graph.copies().reserve(rows.slots());
  const auto has = [&](Slot slot) {
    return slot < rows.slots() && graph.is_linked(slot) && rows.has_vector(slot);
  };
  if (!graph.copies().restore(reader.verified<std::uint16_t>(Section::kCopies, count),
                              has)) {
    refuse_snapshot("the lists of copies are no lists of its rows");
  }
}

}  // namespace vecall

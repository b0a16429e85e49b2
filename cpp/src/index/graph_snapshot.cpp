#include "index/graph_snapshot.hpp"

#include <algorithm>

#include "vecall/assert.hpp"

namespace vecall {

void GraphSnapshot::save(const GraphIndex& index, std::size_t slots,
                         SnapshotWriter& writer) {
  VECALL_ASSERT(index.ready());
  const Graph& graph = *index.graph_;
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
  const Graph::Entry entry = graph.entry();
  writer.header().has_graph = 1;
  writer.header().entry = entry.slot;
  writer.header().entry_level = static_cast<std::uint32_t>(entry.level);
}

void GraphSnapshot::restore_list(const SnapshotReader& reader,
                                 std::span<const std::uint8_t> flags, const Slot* list,
                                 Slot slot, int level, Graph& graph) {
  const std::size_t most = graph.degree(level);
  std::size_t count = 0;
  for (; count < most && list[count] != kNoSlot; ++count) {
    const Slot other = list[count];
    if (other >= reader.header().slots || other == slot ||
        (flags[other] & kFlagLinked) == 0 || graph.level_of(other) < level) {
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
  auto graph = std::make_unique<Graph>(index.options_.m);
  const std::size_t degree = graph->degree(0);
  const auto links = reader.array<Slot>(Section::kLinks, slots * degree);
  const std::size_t all = reader.count<Slot>(Section::kUpperLinks);
  const auto upper = reader.array<Slot>(Section::kUpperLinks, all);
  std::size_t at = 0;
  for (Slot slot = 0; slot < slots; ++slot) {
    if ((flags[slot] & kFlagLinked) == 0) continue;
    if (!graph->has_room(slots, 1)) graph->reserve(slots, 1);
    graph->add_upper_levels(slot);
    restore_list(reader, flags, links.data() + slot * degree, slot, 0, *graph);
    for (int level = 1; level <= graph->level_of(slot); ++level, at += graph->m()) {
      if (graph->m() > all - at) refuse_snapshot("links of a level are missing");
      restore_list(reader, flags, upper.data() + at, slot, level, *graph);
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
  for (Slot slot = 0; slot < slots; ++slot) {
    if (!graph->is_linked(slot)) continue;
    graph->landmarks().reserve(rows, 1);
    graph->add_entrances(rows, slot);
  }
  graph->reserve(slots, 1);
  index.graph_ = std::move(graph);
}

}  // namespace vecall

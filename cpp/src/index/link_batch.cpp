#include "index/link_batch.hpp"

#include <algorithm>
#include <cstring>

#include "index/graph_linker.hpp"
#include "vecall/assert.hpp"
#include "vecall/options.hpp"

namespace vecall {

void LinkBatch::begin(Graph& graph, const RowTable& rows, std::span<const Slot> slots) {
  VECALL_ASSERT(is_linked());
  graph.make_room(rows, slots);
  row_bytes_ = rows.space().high_bytes();
  slots_.assign(slots.begin(), slots.end());
  const std::size_t count = slots.size();
  done_.assign(count, 0);
  next_part_ = 0;
  heights_.assign(count, 0);
  codes_.resize((count * row_bytes_ + sizeof(Line) - 1) / sizeof(Line));
  factors_.assign(count, 0.0F);
  relinked_.clear();
  relinked_.reserve(count);
  first_link_.resize(count);
  link_count_.assign(count, 0);
  std::size_t room = 0;
  for (std::size_t row = 0; row < count; ++row) {
    first_link_[row] = room;
    room += graph.m() * static_cast<std::size_t>(1 + graph.level_of(slots[row]));
  }
  links_.resize(room);
  grouped_.resize(room);
  group_end_.resize(count + 1);
  step_ = Step::kTake;
}

std::size_t LinkBatch::next_part() noexcept {
  while (next_part_ < parts() && is_done(next_part_)) ++next_part_;
  return next_part_;
}

void LinkBatch::do_part(std::size_t part, Graph& graph, const RowTable& rows,
                        GraphLinker& linker, std::uint32_t ef_construction) {
  if (step_ == Step::kTake) {
    take(part, graph, rows, linker);
  } else if (step_ == Step::kChoose) {
    link_count_[part] = 0;
    if (height(part) > 0) linker.choose(graph, rows, ef_construction, part, *this);
  } else {
    const std::size_t begin = part == 0 ? 0 : group_end_[part - 1];
    const auto group = std::span(grouped_).subspan(begin, group_end_[part] - begin);
    for (const Link& link : group) {
      graph.prefetch_links(link.chosen & ~Graph::kDominated, link.level);
    }
    for (const Link& link : group) linker.link_back(graph, rows, *this, link);
  }
  done_[part] = 1;
}

void LinkBatch::take(std::size_t row, Graph& graph, const RowTable& rows,
                     GraphLinker& linker) {
  const Slot slot = slots_[row];
  if (!rows.has_vector(slot)) return;
  if (graph.is_linked(slot)) {
    linker.unlink(graph, rows, slot);
    relinked_.push_back(slot);
  }
  std::memcpy(reinterpret_cast<std::uint8_t*>(codes_.data()) + row * row_bytes_,
              rows.high(slot), row_bytes_);
  factors_[row] = rows.factor(slot);
  heights_[row] = static_cast<std::uint8_t>(1 + graph.level_of(slot));
}

bool LinkBatch::is_relinked(Slot slot) const noexcept {
  return std::binary_search(relinked_.begin(), relinked_.end(), slot);
}

void LinkBatch::choose(const Link& link) noexcept {
  links_[first_link_[link.row] + link_count_[link.row]++] = link;
}

void LinkBatch::next_step(Graph& graph) noexcept {
  VECALL_ASSERT(next_part() == parts());
  if (step_ == Step::kTake) {
    std::sort(relinked_.begin(), relinked_.end());
    step_ = Step::kChoose;
  } else if (step_ == Step::kChoose) {
    set_links(graph);
    group_links();
    step_ = Step::kLinkBack;
  } else {
    step_ = Step::kLinked;
  }
  std::fill(done_.begin(), done_.end(), std::uint8_t{0});
  next_part_ = 0;
}

void LinkBatch::set_links(Graph& graph) noexcept {
  for (std::size_t row = 0; row < slots_.size(); ++row) {
    if (height(row) == 0) continue;
    const Slot slot = slots_[row];
    graph.add_upper_levels(slot);
    auto link = links_of(row).begin();
    for (int level = height(row) - 1; level >= 0; --level) {
      Slot chosen[kMostLinks];
      std::size_t count = 0;
      for (; link != links_of(row).end() && link->level == level; ++link) {
        chosen[count++] = link->chosen;
      }
      graph.set_links(slot, level, chosen, count);
    }
    graph.set_linked(slot);
    const Graph::Entry entry = graph.entry();
    if (entry.slot == kNoSlot || height(row) - 1 > entry.level) {
      graph.set_entry({slot, height(row) - 1});
    }
  }
}

std::size_t LinkBatch::group_of(const Link& link) const noexcept {
  const std::uint32_t mixed = (link.chosen & ~Graph::kDominated) * 0x9E37'79B9U;
  return std::uint64_t{mixed} * slots_.size() >> 32;
}

void LinkBatch::group_links() noexcept {
  std::fill(group_end_.begin(), group_end_.end(), 0);
  for (std::size_t row = 0; row < slots_.size(); ++row) {
    for (const Link& link : links_of(row)) ++group_end_[group_of(link) + 1];
  }
  for (std::size_t at = 1; at < group_end_.size(); ++at) {
    group_end_[at] += group_end_[at - 1];
  }
  // Of each group, where it begins, until its links are in: then where it ends.
  for (std::size_t row = 0; row < slots_.size(); ++row) {
    for (const Link& link : links_of(row))
      grouped_[group_end_[group_of(link)]++] = link;
  }
}

}  // namespace vecall

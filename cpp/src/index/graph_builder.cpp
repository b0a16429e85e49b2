#include "index/graph_builder.hpp"

#include <utility>

#include "index/reserve_more.hpp"
#include "vecall/assert.hpp"

namespace vecall {

void GraphBuilder::begin(std::uint32_t m) {
  graph_ = std::make_unique<Graph>(m);
  cursor_ = 0;
  entered_ = 0;
  stale_.clear();
}

void GraphBuilder::reserve(std::size_t more) {
  if (graph_) reserve_more(stale_, more);
}

void GraphBuilder::on_vector(Slot slot) noexcept {
  if (!graph_ || slot >= cursor_) return;
  VECALL_ASSERT(stale_.size() < stale_.capacity());
  stale_.push_back(slot);
}

void GraphBuilder::on_remove(Slot slot, const RowTable& rows) noexcept {
  VECALL_ASSERT(rows.has_vector(slot));
  if (graph_) graph_->copies().remove(rows, slot);
}

void GraphBuilder::begin_slice(const RowTable& rows, std::size_t most,
                               LinkBatch& batch) {
  VECALL_ASSERT(is_building());
  std::vector<Slot> slots;
  slots.reserve(most);
  Slot end = cursor_;
  for (; end < rows.slots() && slots.size() < most; ++end) {
    if (rows.has_vector(end)) slots.push_back(end);
  }
  batch.begin(*graph_, rows, slots);
  cursor_ = end;
}

bool GraphBuilder::end_slice(const RowTable& rows, std::size_t most) noexcept {
  VECALL_ASSERT(is_building());
  for (; entered_ < cursor_ && most > 0; ++entered_, --most) {
    graph_->add_entrances(rows, entered_);
  }
  return entered_ == cursor_;
}

GraphBuilder::Built GraphBuilder::finish(const RowTable& rows) {
  VECALL_ASSERT(is_building() && is_whole(rows));
  graph_->reserve(rows.slots(), 0);
  return {std::move(graph_), std::exchange(stale_, {})};
}

std::size_t GraphBuilder::nbytes() const noexcept {
  return (graph_ ? graph_->nbytes() : 0) + stale_.capacity() * sizeof(Slot);
}

}  // namespace vecall

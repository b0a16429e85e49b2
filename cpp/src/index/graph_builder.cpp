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

void GraphBuilder::begin_slice(const RowTable& rows, std::size_t most) {
  VECALL_ASSERT(is_building());
  graph_->make_room(rows, most);
  // The rows of a slice that an error ended become entrances with those of this one.
  graph_->landmarks().reserve(rows, most + (cursor_ - entered_));
}

bool GraphBuilder::link_next(const RowTable& rows, GraphLinker& linker,
                             std::uint32_t ef_construction) {
  VECALL_ASSERT(is_building());
  while (cursor_ < rows.slots() && !rows.has_vector(cursor_)) ++cursor_;
  if (cursor_ >= rows.slots()) return false;
  if (!graph_->has_room(cursor_ + std::size_t{1}, 1)) return false;
  linker.link(*graph_, rows, cursor_, ef_construction);
  ++cursor_;
  return true;
}

bool GraphBuilder::end_slice(const RowTable& rows) noexcept {
  VECALL_ASSERT(is_building());
  for (; entered_ < cursor_; ++entered_) graph_->add_entrances(rows, entered_);
  return cursor_ >= rows.slots();
}

GraphBuilder::Built GraphBuilder::finish(const RowTable& rows) {
  VECALL_ASSERT(is_building() && entered_ >= rows.slots());
  graph_->reserve(rows.slots(), 1);
  return {std::move(graph_), std::exchange(stale_, {})};
}

std::size_t GraphBuilder::nbytes() const noexcept {
  return (graph_ ? graph_->nbytes() : 0) + stale_.capacity() * sizeof(Slot);
}

}  // namespace vecall

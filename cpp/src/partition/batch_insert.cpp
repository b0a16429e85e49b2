#include "partition/batch_insert.hpp"

#include <algorithm>
#include <span>

namespace vecall {

void Partition::BatchInsert::begin() {
  partition_.mutex().assert_shared_held();
  free_slots_ = partition_.rows_.free_slots();
  staged_.reserve(batch_.rows().size());
  for (const std::size_t row : batch_.rows()) {
    Staged staged{row};
    staged.is_new = !partition_.contains(batch_.batch().ids[row]);
    // A row with words needs a slot beside the one that it replaces, since both are
    // indexed for a moment; others take over the slot.
    if (batch_.has_words(row) || staged.is_new) ++more_;
    if (batch_.has_vector(row)) ++vectors_;
    staged_.push_back(staged);
  }
}

void Partition::BatchInsert::reserve() {
  partition_.mutex().assert_held();
  const std::vector<RowMeta>& meta = batch_.batch().meta;
  const bool expires = std::any_of(meta.begin(), meta.end(), [](const RowMeta& row) {
    return row.expires != kMaxTime;
  });
  RowTable& rows = partition_.rows_;
  // A row that was removed since begin() left a slot, and may be one of ours.
  const std::size_t removed = rows.free_slots() - free_slots_;
  rows.reserve(more_ + removed, !meta.empty(), expires);
  free_slots_ = rows.free_slots();
  first_ = static_cast<Slot>(rows.slots());
  partition_.ids_.reserve(rows.live() + staged_.size(), rows);
}

void Partition::BatchInsert::place_codes(RowTable& rows) noexcept {
  Slot slot = first_;
  std::size_t in_free = free_slots_;
  for (const bool words : {true, false}) {  // the order in which commit() allocates
    for (Staged& staged : staged_) {
      const bool has_words = batch_.has_words(staged.row);
      if (has_words != words || (!has_words && !staged.is_new)) continue;
      if (in_free > 0) {
        --in_free;
        continue;
      }
      if (batch_.has_vector(staged.row)) {
        staged.placed = slot;
        rows.put_codes(slot, batch_.codes(staged.row));
      }
      ++slot;
    }
  }
}

void Partition::BatchInsert::stage_all() {
  if (vectors_ > 0) {
    const GraphOptions& options = partition_.space_->graph;
    RowTable& rows = partition_.rows_;
    if (!partition_.graph_ &&
        options.wants_graph((rows.vectors() + vectors_) * rows.space().high_bytes())) {
      partition_.graph_ = std::make_unique<GraphIndex>(options);
    }
    if (partition_.graph_) partition_.graph_->reserve(vectors_);
  }
  try {
    for (Staged& staged : staged_) stage(staged);
  } catch (...) {
    roll_back();
    throw;
  }
}

void Partition::BatchInsert::stage(Staged& staged) {
  const RowBatch& batch = batch_.batch();
  if (!batch.meta.empty()) acquire_names(batch.meta[staged.row], staged);
  if (!batch_.has_words(staged.row)) return;
  if (!partition_.postings_) partition_.postings_ = std::make_unique<Postings>();
  staged.slot = allocate(staged);
  const auto begin = static_cast<std::size_t>(batch.offsets[staged.row]);
  const auto end = static_cast<std::size_t>(batch.offsets[staged.row + 1]);
  partition_.postings_->add(staged.slot,
                            std::span(batch.terms).subspan(begin, end - begin));
}

void Partition::BatchInsert::acquire_names(const RowMeta& meta, Staged& staged) {
  if (meta.session == kNoSession && meta.author == kNoLabel && meta.kind == kNoLabel) {
    return;
  }
  if (!partition_.names_) partition_.names_ = std::make_unique<RowNames>();
  Labels& labels = partition_.names_->labels;
  staged.session = labels.sessions.acquire(meta.session);
  staged.author = labels.authors.acquire(meta.author);
  staged.kind = labels.kinds.acquire(meta.kind);
  partition_.names_->sessions.reserve(labels.sessions.numbers());
}

void Partition::BatchInsert::roll_back() noexcept {
  for (const Staged& staged : staged_) {
    if (staged.session != 0 || staged.author != 0 || staged.kind != 0) {
      partition_.release_names(staged.session, staged.author, staged.kind);
    }
    if (staged.slot == kNoSlot) continue;
    partition_.postings_->remove(staged.slot);
    partition_.rows_.release(staged.slot);
  }
}

Slot Partition::BatchInsert::allocate(const Staged& staged) noexcept {
  RowTable& rows = partition_.rows_;
  return rows.allocate(batch_.batch().ids[staged.row], staged.placed == rows.slots());
}

void Partition::BatchInsert::commit() {
  partition_.mutex().assert_held();
  stage_all();  // nothing below can fail
  for (const Staged& staged : staged_) {
    if (!staged.is_new) {
      // Others may have removed it meanwhile, and none can have added it.
      const Slot replaced =
          partition_.ids_.find(batch_.batch().ids[staged.row], partition_.rows_);
      if (replaced != kNoSlot) partition_.remove_slot(replaced);
    }
    // The slot that was freed last is the next one taken.
    publish(staged, staged.slot == kNoSlot ? allocate(staged) : staged.slot);
  }
}

void Partition::BatchInsert::publish(const Staged& staged, Slot slot) noexcept {
  RowTable& rows = partition_.rows_;
  if (!batch_.batch().meta.empty()) {
    const RowMeta& meta = batch_.batch().meta[staged.row];
    rows.set_time(slot, meta.time);
    rows.set_expiry(slot, meta.expires);
    rows.set_session(slot, staged.session, meta.position);
    rows.set_labels(slot, staged.author, staged.kind);
  }
  rows.publish(slot);
  partition_.ids_.insert(slot, rows);
  if (staged.session != 0) partition_.names_->sessions.add(slot, rows);
  if (!batch_.has_vector(staged.row)) return;
  if (slot != staged.placed) rows.put_codes(slot, batch_.codes(staged.row));
  rows.show_vector(slot);
  if (partition_.graph_) partition_.graph_->on_vector(slot, rows);
}

}  // namespace vecall

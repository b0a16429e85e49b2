#include "partition/batch_insert.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace vecall {

namespace {

bool strictly_increasing(const std::vector<RowId>& ids) noexcept {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) ==
         ids.end();
}

}  // namespace

Partition::BatchInsert::BatchInsert(Partition& partition, const RowBatch& batch)
    : partition_(partition), batch_(batch) {
  partition_.mutex().assert_held();
  choose_rows();
  reserve();
  try {
    for (Staged& staged : staged_) stage(staged);
  } catch (...) {
    roll_back();
    throw;
  }
}

// Of rows with one id the last.
void Partition::BatchInsert::choose_rows() {
  const std::vector<RowId>& ids = batch_.ids;
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!strictly_increasing(ids)) {
    std::stable_sort(order.begin(), order.end(),
                     [&ids](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
    const auto last = [&](std::size_t i) {
      return i + 1 == order.size() || ids[order[i]] != ids[order[i + 1]];
    };
    std::size_t unique = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (last(i)) order[unique++] = order[i];
    }
    order.resize(unique);
    std::sort(order.begin(), order.end());
  }
  staged_.reserve(order.size());
  for (const std::size_t row : order) staged_.push_back({row});
}

void Partition::BatchInsert::reserve() {
  // A row with words needs a slot beside the one that it replaces, since both are
  // indexed for a moment; others take over the slot.
  std::size_t more = 0;
  std::size_t vectors = 0;
  for (const Staged& staged : staged_) {
    const RowId id = batch_.ids[staged.row];
    if (has_words(staged.row) || !partition_.contains(id)) ++more;
    if (has_vector(staged.row)) ++vectors;
  }
  const bool has_meta = !batch_.meta.empty();
  const bool expires =
      std::any_of(batch_.meta.begin(), batch_.meta.end(),
                  [](const RowMeta& meta) { return meta.expires != kMaxTime; });
  RowTable& rows = partition_.rows_;
  rows.reserve(more, has_meta, expires);
  partition_.ids_.reserve(rows.live() + staged_.size(), rows);
  if (vectors == 0) return;
  encoder_.prepare(rows.space());
  const GraphOptions& options = partition_.space_->graph;
  if (!partition_.graph_ &&
      options.wants_graph((rows.vectors() + vectors) * rows.space().high_bytes())) {
    partition_.graph_ = std::make_unique<GraphIndex>(options);
  }
  if (partition_.graph_) partition_.graph_->reserve(vectors);
}

void Partition::BatchInsert::stage(Staged& staged) {
  if (!batch_.meta.empty()) acquire_names(batch_.meta[staged.row], staged);
  if (!has_words(staged.row)) return;
  if (!partition_.postings_) partition_.postings_ = std::make_unique<Postings>();
  staged.slot = partition_.rows_.allocate(batch_.ids[staged.row]);
  const auto begin = static_cast<std::size_t>(batch_.offsets[staged.row]);
  const auto end = static_cast<std::size_t>(batch_.offsets[staged.row + 1]);
  partition_.postings_->add(staged.slot,
                            std::span(batch_.terms).subspan(begin, end - begin));
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
    if (staged.slot == RowTable::kNoSlot) continue;
    partition_.postings_->remove(staged.slot);
    partition_.rows_.release(staged.slot);
  }
}

void Partition::BatchInsert::commit() noexcept {
  partition_.mutex().assert_held();
  for (const Staged& staged : staged_) {
    const RowId id = batch_.ids[staged.row];
    const Slot replaced = partition_.ids_.find(id, partition_.rows_);
    if (replaced != IdMap::kNoSlot) partition_.remove_slot(replaced);
    // The slot that was freed last is the next one taken.
    const Slot slot =
        staged.slot == RowTable::kNoSlot ? partition_.rows_.allocate(id) : staged.slot;
    publish(staged, slot);
  }
}

void Partition::BatchInsert::publish(const Staged& staged, Slot slot) noexcept {
  RowTable& rows = partition_.rows_;
  if (!batch_.meta.empty()) {
    const RowMeta& meta = batch_.meta[staged.row];
    rows.set_time(slot, meta.time);
    rows.set_expiry(slot, meta.expires);
    rows.set_session(slot, staged.session, meta.position);
    rows.set_labels(slot, staged.author, staged.kind);
  }
  rows.publish(slot);
  partition_.ids_.insert(slot, rows);
  if (staged.session != 0) partition_.names_->sessions.add(slot, rows);
  if (!has_vector(staged.row)) return;
  const std::size_t dim = partition_.dim();
  rows.set_vector(slot, std::span(batch_.unit_vectors).subspan(staged.row * dim, dim),
                  encoder_);
  if (partition_.graph_) partition_.graph_->on_vector(slot, rows);
}

}  // namespace vecall

#include "partition/partition.hpp"

#include <algorithm>
#include <new>

#include "index/flat_search.hpp"
#include "partition/batch_insert.hpp"
#include "partition/recall.hpp"
#include "sync/fork_gate.hpp"
#include "sync/locks.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

// Rows that a search of a graph compares for each entry of its pool, with what makes
// one dearer than a row of a scan.
constexpr std::size_t kRowsPerEf = 64;
// What is looked at in the time of a scan's byte of codes: one posting of a word, one
// row that a filter tests (measured).
constexpr std::size_t kBytesPerPosting = 64;
constexpr std::size_t kBytesPerTest = 32;
// Up to so many rows are added under one hold of the lock.
constexpr std::size_t kFewRows = 256;

// Grown, never freed: a thread's searches allocate nothing once they are warm.
struct SearchScratch {
  RowSelection selection;
  EncodedQuery encoded;
  DenseScratch dense;
};

// The same for queries that are answered together.
struct TogetherScratch {
  RowSelection selection;
  EncodedQuery encoded[kMostTogether];
  DenseScratch dense[kMostTogether];
};

void write_hits(const RowTable& rows, const std::vector<Scored>& best,
                std::vector<Hit>& out) {
  for (const Scored& row : best) {
    out.push_back(
        {rows.id(row.slot), static_cast<float>(std::clamp(row.score, -1.0, 1.0))});
  }
}

}  // namespace

Partition::Partition(Ref<const PartitionSpace> space, PartitionKey key)
    : key_(key.app.empty() && key.user.empty() ? OwnedKey() : OwnedKey(key)),
      space_(std::move(space)),
      rows_(space_->rows) {
  ForkGate::shared();  // forks are seen from the first lock on
}

Partition::~Partition() = default;

bool Partition::add(const RowBatch& batch) {
  return add(EncodedBatch(space_->rows, batch));
}

bool Partition::add(const EncodedBatch& batch) {
  if (batch.rows().empty()) return false;
  const WriterLock one(adding_);
  BatchInsert insert(*this, batch);
  const bool is_large = batch.rows().size() > kFewRows;
  if (is_large) place(insert);
  const auto pass = ForkGate::enter();
  const WriterLock lock(mutex_);
  if (!is_large) {
    insert.begin();
    insert.reserve();
  }
  insert.commit();
  return has_links_to_make();
}

void Partition::place(BatchInsert& insert) {
  RowTable* rows = nullptr;
  {
    const ReaderLock lock(mutex_);
    insert.begin();
  }
  {
    const auto pass = ForkGate::enter();
    const WriterLock lock(mutex_);
    insert.reserve();
    rows = &rows_;
  }
  insert.place_codes(*rows);
}

std::size_t Partition::remove(std::span<const RowId> ids) noexcept {
  std::size_t removed = 0;
  for (const RowId id : ids) {
    const Slot slot = ids_.find(id, rows_);
    if (slot == kNoSlot) continue;
    remove_slot(slot);
    ++removed;
  }
  return removed;
}

void Partition::remove_slot(Slot slot) noexcept {
  rows_.prefetch_row(slot);
  if (postings_) postings_->remove(slot);
  release_slot(slot);
}

void Partition::release_slot(Slot slot) noexcept {
  ids_.erase(slot, rows_);
  if (names_) {
    const std::uint32_t session = rows_.session(slot);
    if (session != 0) names_->sessions.remove(slot, rows_);
    release_names(session, rows_.author(slot), rows_.kind(slot));
  }
  if (graph_ && rows_.has_vector(slot)) graph_->on_remove(slot, rows_);
  rows_.release(slot);
}

void Partition::release_names(std::uint32_t session, std::uint32_t author,
                              std::uint32_t kind) noexcept {
  Labels& labels = names_->labels;
  labels.sessions.release(session);
  labels.authors.release(author);
  labels.kinds.release(kind);
}

void Partition::search(const SearchQuery& query, std::vector<Hit>& out) const {
  thread_local SearchScratch of_thread;
  SearchScratch& scratch = of_thread;  // found once: the way to it is a call
  VECALL_ASSERT(query.k > 0);
  out.clear();
  if (rows_.vectors() == 0) return;
  const PartitionView partition = view();
  select_rows(partition, query.filter, scratch.selection);
  if (scratch.selection.count() == 0) return;
  scratch.encoded.encode(rows_.space(), query.unit_vector);
  const std::size_t k = std::min(query.k, rows_.vectors());
  search_vectors(partition, {rows_, scratch.selection, scratch.encoded, k, query.exact},
                 query.ef, scratch.dense);
  write_hits(rows_, scratch.dense.best, out);
}

void Partition::search(std::span<const SearchQuery> queries,
                       std::span<std::vector<Hit>> out) const {
  thread_local TogetherScratch of_thread;
  TogetherScratch& scratch = of_thread;
  const PartitionView partition = view();
  const SearchQuery& one = queries.front();
  const bool by_graph = graph_ && graph_->ready() && !one.exact;
  if (queries.size() == 1 || rows_.vectors() == 0 || by_graph) {
    for (std::size_t i = 0; i < queries.size(); ++i) search(queries[i], out[i]);
    return;
  }
  for (std::vector<Hit>& hits : out) hits.clear();
  select_rows(partition, one.filter, scratch.selection);
  if (scratch.selection.count() == 0) return;
  const std::size_t k = std::min(one.k, rows_.vectors());
  std::vector<DenseQuery> dense;
  dense.reserve(queries.size());
  for (std::size_t i = 0; i < queries.size(); ++i) {
    scratch.encoded[i].encode(rows_.space(), queries[i].unit_vector);
    dense.push_back({rows_, scratch.selection, scratch.encoded[i], k, one.exact});
  }
  flat_search_together(dense, std::span(scratch.dense).first(queries.size()));
  for (std::size_t i = 0; i < queries.size(); ++i) {
    write_hits(rows_, scratch.dense[i].best, out[i]);
  }
}

RecallSummary Partition::recall(const RecallQuery& query,
                                std::vector<RecallHit>& out) const {
  return recall_rows(view(), query, out);
}

bool Partition::has_links_to_make() const noexcept {
  return graph_ && graph_->has_work(rows_);
}

bool Partition::link_some(std::size_t most) {
  return link_some(most, {});
}

bool Partition::link_some(std::span<GraphLinker> linkers) {
  return link_some(static_cast<std::size_t>(-1), linkers);
}

bool Partition::link_some(std::size_t most, std::span<GraphLinker> linkers) {
  const auto pass = ForkGate::enter();
  GraphIndex* graph = nullptr;
  RowTable* rows = nullptr;
  {
    const ReaderLock lock(mutex_);
    graph = graph_.get();  // made once, never replaced
    rows = &rows_;
  }
  return graph != nullptr && graph->link_some(mutex_, *rows, most, linkers);
}

std::size_t Partition::linked() const noexcept {
  return graph_ ? rows_.vectors() - std::min(rows_.vectors(), graph_->pending(rows_))
                : 0;
}

std::vector<RowId> Partition::live_ids() const {
  std::vector<RowId> ids;
  ids.reserve(rows_.live());
  for (Slot slot = 0; slot < rows_.slots(); ++slot) {
    if (rows_.is_live(slot)) ids.push_back(rows_.id(slot));
  }
  return ids;
}

std::size_t Partition::search_bytes(std::size_t ef) const noexcept {
  std::size_t rows = rows_.slots();
  if (graph_ && graph_->ready() && ef < rows / kRowsPerEf) rows = ef * kRowsPerEf;
  return rows * rows_.space().high_bytes();
}

std::size_t Partition::recall_bytes(const RecallQuery& query) const {
  std::size_t bytes = query.unit_vector.empty() ? 0 : search_bytes(query.ef);
  if (postings_) bytes += postings_->steps(query.terms) * kBytesPerPosting;
  if (query.period) {  // its rows are searched too
    bytes += query.unit_vector.empty() ? 0 : search_bytes(query.ef);
    bytes += rows_.slots() * (kBytesPerTest + kBytesPerPosting);
  }
  const Filter& filter = query.filter;
  const bool tests_rows = filter.mask || filter.session || filter.author ||
                          filter.kind || filter.after != kMinTime ||
                          filter.before != kMaxTime || !filter.without.empty() ||
                          !filter.without_sessions.empty() ||
                          rows_.any_expires_by(filter.now);
  if (filter.only) {
    bytes += filter.only->size() * kBytesPerTest;
  } else if (tests_rows) {
    bytes += rows_.slots() * kBytesPerTest;
  }
  return bytes;
}

std::size_t Partition::nbytes() const noexcept {
  std::size_t bytes = sizeof(*this) + key_.nbytes() + rows_.nbytes() + ids_.nbytes();
  if (names_) {
    bytes += sizeof(*names_) + names_->labels.nbytes() + names_->sessions.nbytes();
  }
  if (postings_) bytes += sizeof(*postings_) + postings_->nbytes();
  if (graph_) bytes += graph_->nbytes();
  return bytes;
}

}  // namespace vecall

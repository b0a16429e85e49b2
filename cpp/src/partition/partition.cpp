#include "partition/partition.hpp"

#include <algorithm>
#include <limits>

#include "index/flat_index.hpp"
#include "index/top_k.hpp"
#include "partition/fusion.hpp"
#include "vecall/errors.hpp"

namespace vecall {

// Grown, never freed: a thread's searches allocate nothing once they are warm.
struct Partition::RecallScratch {
  std::vector<Scored> dense;
  std::vector<Scored> lexical;
  std::vector<float> cosines;  // by slot, of this query where it has a vector
  TermScores terms;
  std::vector<Candidate> candidates;
  std::vector<std::uint32_t> index_plus_one;  // by slot, into candidates; 0 = none

  void clear() noexcept {
    for (const Candidate& candidate : candidates) index_plus_one[candidate.slot] = 0;
    candidates.clear();
    terms.clear();
    dense.clear();
    lexical.clear();
  }
};

void Partition::check(const RowBatch& batch, std::size_t dim) {
  const std::size_t count = batch.ids.size();
  if (!batch.meta.empty() && batch.meta.size() != count) {
    throw InvalidArgumentError("rows: every id needs one entry in each column");
  }
  if (!batch.offsets.empty() || !batch.terms.empty()) {
    bool ordered =
        batch.offsets.size() == count + 1 && batch.offsets.front() == 0 &&
        batch.offsets.back() == static_cast<std::int64_t>(batch.terms.size());
    for (std::size_t i = 0; ordered && i < count; ++i) {
      ordered = batch.offsets[i] <= batch.offsets[i + 1];
    }
    if (!ordered) {
      throw InvalidArgumentError(
          "offsets: must be n + 1 increasing positions from 0 to len(terms)");
    }
  }
  const std::size_t vectors = batch.has_vector.empty() ? 0 : count;
  if (batch.has_vector.size() != vectors ||
      batch.unit_vectors.size() != vectors * dim) {
    throw DimensionError("vectors: every id needs one vector of the index's dimension");
  }
}

void Partition::add(const RowBatch& batch) {
  const std::size_t wanted = rows_.slots() + batch.ids.size();
  if (wanted >= std::numeric_limits<Slot>::max()) {
    throw LimitExceededError("rows: a partition holds at most 2^32 - 2 rows");
  }
  free_.reserve(wanted);
  slot_of_.reserve(slot_of_.size() + batch.ids.size());
  for (std::size_t i = 0; i < batch.ids.size(); ++i) add_row(batch, i);
}

void Partition::add_row(const RowBatch& batch, std::size_t i) {
  const RowId id = batch.ids[i];
  const auto existing = slot_of_.find(id);
  Slot slot = 0;
  if (existing != slot_of_.end()) {
    slot = existing->second;
    remove_slot(slot);
    free_.pop_back();
  } else if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    slot = static_cast<Slot>(rows_.slots());
    vectors_.reserve(slot + std::size_t{1});
    sessions_.reserve(slot + std::size_t{1});
    rows_.reserve(slot + std::size_t{1});
  }
  rows_.set(slot, id, batch.meta.empty() ? RowMeta{} : batch.meta[i]);
  try {
    sessions_.add(slot, rows_);
    if (batch.offsets.empty()) {
      postings_.add(slot, {});
    } else {
      const auto begin = static_cast<std::size_t>(batch.offsets[i]);
      const auto end = static_cast<std::size_t>(batch.offsets[i + 1]);
      postings_.add(slot, std::span(batch.terms).subspan(begin, end - begin));
    }
    slot_of_[id] = slot;
  } catch (...) {
    remove_slot(slot);
    throw;
  }
  if (!batch.has_vector.empty() && batch.has_vector[i] != 0) {
    vectors_.set(slot, std::span(batch.unit_vectors).subspan(i * dim(), dim()));
  }
}

void Partition::remove_slot(Slot slot) noexcept {
  slot_of_.erase(rows_.id(slot));
  sessions_.remove(slot, rows_);
  postings_.remove(slot);
  vectors_.clear(slot);
  rows_.clear(slot);
  free_.push_back(slot);  // capacity was reserved when the slot was made
}

std::size_t Partition::remove(std::span<const RowId> ids) noexcept {
  std::size_t removed = 0;
  for (const RowId id : ids) {
    const auto found = slot_of_.find(id);
    if (found == slot_of_.end()) continue;
    remove_slot(found->second);
    ++removed;
  }
  return removed;
}

void Partition::search(std::span<const float> unit_query, const Filter& filter,
                       std::size_t k, std::vector<Hit>& out) const {
  thread_local std::vector<Scored> best;
  thread_local std::vector<float> cosines;
  flat_search(vectors_, rows_, unit_query, filter, std::min(k, rows_.live() + 1), best,
              cosines);
  out.clear();
  for (const Scored& row : best) out.push_back({rows_.id(row.slot), row.score});
}

// Whatever either side ranks high, and the turns beside it.
void Partition::propose(const RecallQuery& query, RecallScratch& scratch) const {
  TopK words(scratch.lexical, std::max(query.candidates, query.k), rows_);
  for (const Slot slot : scratch.terms.touched) {
    const float bm25 = scratch.terms.bm25[slot];
    if (words.wants(bm25) && rows_.passes(slot, query.filter))
      words.offer({slot, bm25});
  }
  words.finish();
  for (const Scored& row : scratch.lexical) add_candidate(row.slot, query, scratch);
  for (const Scored& row : scratch.dense) add_candidate(row.slot, query, scratch);
  const std::size_t proposed = scratch.candidates.size();
  for (std::size_t i = 0; i < proposed; ++i) {
    const Slot slot = scratch.candidates[i].slot;
    for (const Slot beside :
         {sessions_.previous(slot, rows_), sessions_.next(slot, rows_)}) {
      if (beside == SessionOrder::kNobody || !rows_.passes(beside, query.filter))
        continue;
      add_candidate(beside, query, scratch);
    }
  }
  link_neighbours(scratch);
}

void Partition::add_candidate(Slot slot, const RecallQuery& query,
                              RecallScratch& scratch) const {
  if (scratch.index_plus_one[slot] != 0) return;
  Candidate candidate{slot, 0.0F, std::numeric_limits<float>::quiet_NaN(), 0.0F, 0.0F};
  if (slot < scratch.terms.bm25.size()) candidate.lexical = scratch.terms.bm25[slot];
  if (!query.unit_vector.empty() && vectors_.has(slot)) {
    candidate.similarity = scratch.cosines[slot];
  }
  scratch.candidates.push_back(candidate);
  scratch.index_plus_one[slot] = static_cast<std::uint32_t>(scratch.candidates.size());
}

void Partition::link_neighbours(RecallScratch& scratch) const {
  const auto index_of = [&scratch](Slot slot) {
    if (slot == SessionOrder::kNobody || scratch.index_plus_one[slot] == 0) {
      return kNoCandidate;
    }
    return static_cast<std::size_t>(scratch.index_plus_one[slot] - 1);
  };
  for (Candidate& candidate : scratch.candidates) {
    candidate.previous = index_of(sessions_.previous(candidate.slot, rows_));
    candidate.next = index_of(sessions_.next(candidate.slot, rows_));
  }
}

void Partition::recall(const RecallQuery& query, std::vector<RecallHit>& out) const {
  thread_local RecallScratch scratch;
  scratch.clear();
  out.clear();
  if (scratch.index_plus_one.size() < rows_.slots()) {
    scratch.index_plus_one.resize(rows_.slots(), 0);
  }
  FusionInput input{
      !query.unit_vector.empty(), 0.0F, {}, query.dense_weight, query.neighbour_weight};
  if (input.has_vector) {
    const std::size_t wanted = std::max(query.candidates, query.k);
    input.spread =
        flat_search(vectors_, rows_, query.unit_vector, query.filter,
                    std::min(wanted, rows_.live() + 1), scratch.dense, scratch.cosines);
  }
  postings_.score(query.terms, scratch.terms);
  propose(query, scratch);
  for (const Scored& row : scratch.lexical) {
    input.coverage = std::max(
        input.coverage, scratch.terms.matched[row.slot] / scratch.terms.query_idf);
  }
  fuse(scratch.candidates, input);

  auto& found = scratch.candidates;
  const bool has_floor = query.min_similarity > -std::numeric_limits<float>::infinity();
  auto end = found.end();
  if (has_floor) {
    end = std::partition(
        found.begin(), found.end(), [&query](const Candidate& candidate) {
          return candidate.similarity >= query.min_similarity;  // false for NaN
        });
  }
  const auto better = [this](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return rows_.precedes(a.slot, b.slot);
  };
  std::sort(found.begin(), end, better);
  auto last = found.begin();
  const auto available = static_cast<std::size_t>(end - found.begin());
  last += static_cast<std::ptrdiff_t>(std::min(query.k, available));
  while (last != end && last != found.begin() && last->score == (last - 1)->score &&
         rows_.time(last->slot) == rows_.time((last - 1)->slot)) {
    ++last;
  }
  for (auto hit = found.begin(); hit != last; ++hit) {
    out.push_back({rows_.id(hit->slot), hit->score, hit->similarity, hit->lexical});
  }
}

std::size_t Partition::nbytes() const noexcept {
  return sizeof(*this) + rows_.nbytes() + vectors_.nbytes() + postings_.nbytes() +
         sessions_.nbytes() + slot_of_.size() * 32 +
         slot_of_.bucket_count() * sizeof(void*) + free_.capacity() * sizeof(Slot);
}

}  // namespace vecall

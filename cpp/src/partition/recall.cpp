#include "partition/recall.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "index/rescore.hpp"
#include "index/top_k.hpp"
#include "partition/fusion.hpp"
#include "partition/session_order.hpp"

namespace vecall {

namespace {

// Slots for which a scratch goes back to the pool in any case, and how many times those
// of a partition it may have.
constexpr std::size_t kSmallScratch = 65'536;
constexpr std::size_t kLargestShare = 16;

// Grown and used again: searches allocate nothing once they are warm.
struct RecallScratch {
  RowSelection selection;
  RowSelection inside;  // of the selection, the rows in the query's period
  EncodedQuery encoded;
  DenseScratch dense;
  std::vector<Scored> lexical;
  TermScores terms;
  std::vector<Candidate> candidates;
  SessionSums sums;
  std::vector<std::uint32_t> index_plus_one;  // by slot, into candidates; 0 = none

  void clear() noexcept {
    for (const Candidate& candidate : candidates) index_plus_one[candidate.slot] = 0;
    candidates.clear();
    terms.clear();
    dense.best.clear();
    lexical.clear();
  }
};

// What recalls leave for the next ones: as many as run at once, at most kMostFree,
// however many threads there are. Takes no lock, so a child of fork finds none that is
// held.
class ScratchPool {
 public:
  using Scratch = std::unique_ptr<RecallScratch>;

  static ScratchPool& shared() {
    static auto* const pool = new ScratchPool();  // outlives every static destructor
    return *pool;
  }
  Scratch take() {
    for (auto& entry : free_) {
      if (auto* scratch = entry.exchange(nullptr, std::memory_order_acquire)) {
        return Scratch(scratch);
      }
    }
    return std::make_unique<RecallScratch>();
  }
  void give_back(Scratch scratch) noexcept {
    for (auto& entry : free_) {
      RecallScratch* none = nullptr;
      if (entry.compare_exchange_strong(none, scratch.get(), std::memory_order_release,
                                        std::memory_order_relaxed)) {
        static_cast<void>(scratch.release());
        return;
      }
    }
  }

 private:
  static constexpr std::size_t kMostFree = 8;

  std::array<std::atomic<RecallScratch*>, kMostFree> free_ = {};
};

void add_candidate(const RowTable& rows, Slot slot, float similarity,
                   RecallScratch& scratch) {
  Candidate& candidate = scratch.candidates.emplace_back();
  candidate.slot = slot;
  // Facts and pieces of artifacts belong to a session but stand nowhere in it: filters
  // see it, ranking does not.
  const std::uint32_t session = rows.session(slot);
  if (session != 0 && !std::isnan(rows.position(slot))) candidate.session = session;
  candidate.similarity = similarity;
  if (slot < scratch.terms.of_slot.size() && scratch.terms.query_idf > 0.0F) {
    const TermScore& score = scratch.terms.of_slot[slot];
    candidate.lexical = score.bm25;
    candidate.covered = std::min(score.matched / scratch.terms.query_idf, 1.0F);
  }
  scratch.index_plus_one[slot] = static_cast<std::uint32_t>(scratch.candidates.size());
}

// NaN without a vector of the query's or the row's.
double cosine_of(const RowTable& rows, const RecallQuery& query, Slot slot,
                 const RecallScratch& scratch) {
  return !query.unit_vector.empty() && rows.has_vector(slot)
             ? full_cosine(rows, scratch.encoded, slot, false)
             : std::numeric_limits<double>::quiet_NaN();
}

void link_neighbours(const RowTable& rows, RecallScratch& scratch) {
  const auto index_of = [&scratch](Slot slot) {
    if (slot == kNoSlot || scratch.index_plus_one[slot] == 0) {
      return kNoCandidate;
    }
    return static_cast<std::size_t>(scratch.index_plus_one[slot] - 1);
  };
  for (Candidate& candidate : scratch.candidates) {
    candidate.previous = index_of(SessionOrder::previous(candidate.slot, rows));
    candidate.next = index_of(SessionOrder::next(candidate.slot, rows));
  }
}

// The rows in the period hold it like a word of the query.
void score_period(const RowTable& rows, RecallScratch& scratch) {
  TermScores& scores = scratch.terms;
  if (scores.of_slot.size() < rows.slots()) scores.of_slot.resize(rows.slots());
  const auto live = static_cast<float>(rows.live());
  const auto inside = static_cast<float>(scratch.inside.count());
  const float idf = std::log1p((live - inside + 0.5F) / (inside + 0.5F));
  scores.query_idf += idf;
  scratch.inside.for_each([&](Slot slot) {
    TermScore& score = scores.of_slot[slot];
    if (score.matched == 0.0F) scores.touched.push_back(slot);
    score.bm25 += idf;
    score.matched += idf;
  });
}

// Puts the `most` rows of the best BM25 into `best`, best first.
void best_words(const RowTable& rows, const RowSelection& selection,
                const TermScores& scores, std::size_t most, std::vector<Scored>& best) {
  // A heap mispredicts at most rows. Counted by their scores' shares of the highest,
  // all but few rows fall below the share where `most` are reached.
  constexpr std::size_t kSteps = 128;
  best.clear();
  float highest = 0.0F;
  for (const Slot slot : scores.touched) {
    highest = std::max(highest, scores.of_slot[slot].bm25);
  }
  const float scale = highest > 0.0F ? (kSteps - 1) / highest : 0.0F;
  const auto step_of = [scale](float bm25) {
    return std::min(static_cast<std::size_t>(bm25 * scale), kSteps - 1);
  };
  std::array<std::uint32_t, kSteps> counts{};
  for (const Slot slot : scores.touched) {
    if (!selection.contains(slot)) continue;
    const float bm25 = scores.of_slot[slot].bm25;
    best.push_back({slot, bm25});
    ++counts[step_of(bm25)];
  }
  if (best.size() > most) {
    std::size_t floor = kSteps - 1;
    for (std::size_t above = counts[floor]; above < most; above += counts[--floor]) {
    }
    std::erase_if(best, [&](const Scored& row) {
      return step_of(static_cast<float>(row.score)) < floor;
    });
  }
  std::sort(best.begin(), best.end(), [&rows](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : rows.precedes(a.slot, b.slot);
  });
  if (best.size() > most) best.resize(most);
}

// Adds what either side ranks high among the rows of a selection.
void propose(const PartitionView& partition, const RecallQuery& query,
             const RowSelection& selection, RecallScratch& scratch,
             RecallSummary& summary) {
  const RowTable& rows = partition.rows;
  const std::size_t most = std::max(query.candidates, query.k);
  const auto add = [&](Slot slot, double cosine) {
    if (scratch.index_plus_one[slot] == 0) {
      add_candidate(rows, slot, static_cast<float>(cosine), scratch);
    }
  };
  const bool has_vector = !query.unit_vector.empty();
  const std::size_t wanted = has_vector ? std::min(most, rows.vectors()) : 0;
  if (wanted > 0) {
    summary.spread = search_vectors(
        partition,
        {rows, selection, scratch.encoded, wanted, false, /*want_spread=*/true},
        query.ef, scratch.dense);
    for (const Scored& row : scratch.dense.best) add(row.slot, row.score);
  }
  best_words(rows, selection, scratch.terms, most, scratch.lexical);
  for (const Scored& row : scratch.lexical) {
    add(row.slot, cosine_of(rows, query, row.slot, scratch));
    const float matched = scratch.terms.of_slot[row.slot].matched;
    // Optional terms may match more than the query has words.
    const float covered = std::min(matched / scratch.terms.query_idf, 1.0F);
    summary.coverage = std::max(summary.coverage, covered);
  }
}

// Whatever either side ranks high, and the turns beside it.
void collect_candidates(const PartitionView& partition, const RecallQuery& query,
                        RecallScratch& scratch, RecallSummary& summary) {
  const RowTable& rows = partition.rows;
  if (query.period) propose(partition, query, scratch.inside, scratch, summary);
  propose(partition, query, scratch.selection, scratch, summary);
  // Both positions around each of them: the second may hold what the first refers to.
  std::size_t begin = 0;
  for (int step = 0; step < 2; ++step) {
    const std::size_t end = scratch.candidates.size();
    for (std::size_t i = begin; i < end; ++i) {
      const Slot slot = scratch.candidates[i].slot;
      for (const Slot beside :
           {SessionOrder::previous(slot, rows), SessionOrder::next(slot, rows)}) {
        if (beside == kNoSlot || !scratch.selection.contains(beside)) continue;
        if (scratch.index_plus_one[beside] != 0) continue;
        const double cosine = cosine_of(rows, query, beside, scratch);
        add_candidate(rows, beside, static_cast<float>(cosine), scratch);
      }
    }
    begin = end;
  }
  link_neighbours(rows, scratch);
}

void apply_favoured(const PartitionView& partition, const RecallQuery& query,
                    RecallScratch& scratch) {
  if (partition.names == nullptr) return;
  for (const LabelHash name : query.favoured) {
    const std::uint32_t author = partition.names->labels.authors.find(name);
    if (author == LabelDictionary::kNone || author == LabelDictionary::kUnknown) {
      continue;
    }
    for (Candidate& row : scratch.candidates) {
      if (partition.rows.author(row.slot) == author) row.by_favoured_author = true;
    }
  }
  for (Candidate& row : scratch.candidates) {
    if (row.by_favoured_author) row.parts.factor *= query.ranking.favoured;
  }
}

// What is known about the candidates beside their words.
void apply_features(const PartitionView& partition, const RecallQuery& query,
                    RecallScratch& scratch) {
  if (partition.postings == nullptr) return;
  std::vector<Candidate>& found = scratch.candidates;
  const Ranking& ranking = query.ranking;
  // A list that is not much longer is read through; in others each candidate is looked
  // up.
  const auto with_each = [&](TermHash term, const auto& visit) {
    const PostingList* postings = partition.postings->list_of(term);
    if (postings == nullptr) return;
    if (postings->size() <= 16 * found.size()) {
      postings->for_each([&](const Posting& posting) {
        const std::uint32_t index = scratch.index_plus_one[posting.slot];
        if (index != 0) visit(found[index - 1]);
      });
      return;
    }
    for (Candidate& candidate : found) {
      if (postings->contains(candidate.slot)) visit(candidate);
    }
  };
  with_each(query.features.question, [&](Candidate& row) {
    row.asks = true;
    row.parts.factor *= ranking.question;
  });
  with_each(query.features.time,
            [&](Candidate& row) { row.parts.factor *= ranking.time; });
  for (const TermHash author : query.features.authors) {
    with_each(author, [](Candidate& row) { row.by_named_author = true; });
  }
  for (Candidate& row : found) {
    if (row.by_named_author) row.parts.factor *= ranking.author;
  }
  if (!query.period) return;
  with_each(query.period->dated, [](Candidate& row) { row.dated = true; });
}

void lower_outside(const RecallQuery& query, RecallScratch& scratch) {
  const float factor = query.ranking.outside;
  for (Candidate& row : scratch.candidates) {
    if (scratch.inside.contains(row.slot)) continue;
    const bool dated = row.dated || query.period->dated == 0;
    row.parts.factor *= dated ? factor : std::sqrt(factor);
  }
}

void rank(const RowTable& rows, const RecallQuery& query, std::vector<Candidate>& found,
          std::vector<RecallHit>& out) {
  const bool has_floor = query.min_similarity > -std::numeric_limits<float>::infinity();
  auto end = found.end();
  if (has_floor) {
    end = std::partition(
        found.begin(), found.end(), [&query](const Candidate& candidate) {
          return candidate.similarity >= query.min_similarity;  // false for NaN
        });
  }
  const auto better = [&rows](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return rows.precedes(a.slot, b.slot);
  };
  const auto available = static_cast<std::size_t>(end - found.begin());
  auto middle = found.begin();
  middle += static_cast<std::ptrdiff_t>(std::min(query.k, available));
  std::partial_sort(found.begin(), middle, end, better);
  if (middle != end && middle != found.begin()) {
    const Candidate& least = *(middle - 1);
    const auto ties_end = std::partition(middle, end, [&](const Candidate& candidate) {
      return candidate.score == least.score &&
             rows.time(candidate.slot) == rows.time(least.slot);
    });
    std::sort(middle, ties_end, better);
    middle = ties_end;
  }
  for (auto hit = found.begin(); hit != middle; ++hit) {
    const float similarity = std::clamp(hit->similarity, -1.0F, 1.0F);  // NaN stays
    out.push_back({rows.id(hit->slot), hit->score, similarity, hit->lexical,
                   hit->covered, hit->parts});
  }
}

RecallSummary recall_with(const PartitionView& partition, const RecallQuery& query,
                          RecallScratch& scratch, std::vector<RecallHit>& out) {
  const RowTable& rows = partition.rows;
  out.clear();
  if (scratch.index_plus_one.size() < rows.slots()) {
    scratch.index_plus_one.resize(rows.slots(), 0);
  }
  select_rows(partition, query.filter, scratch.selection);
  RecallSummary summary;
  summary.rows = scratch.selection.count();
  if (summary.rows == 0) return summary;
  if (query.period) {
    Filter inside = query.filter;
    inside.after = std::max(inside.after, query.period->from);
    inside.before = std::min(inside.before, query.period->until);
    select_rows(partition, inside, scratch.inside);
    summary.inside = scratch.inside.count();
    if (summary.inside == 0) return summary;
  }
  const bool has_vector = !query.unit_vector.empty();
  if (has_vector) scratch.encoded.encode(rows.space(), query.unit_vector);
  if (partition.postings != nullptr) {
    partition.postings->score(query.terms, scratch.terms);
  }
  if (query.period) score_period(rows, scratch);
  collect_candidates(partition, query, scratch, summary);
  apply_features(partition, query, scratch);
  apply_favoured(partition, query, scratch);
  if (query.period) lower_outside(query, scratch);
  summary.trust = fuse(
      scratch.candidates,
      {has_vector, summary.coverage, summary.spread, query.known_model, query.ranking},
      scratch.sums);
  rank(rows, query, scratch.candidates, out);
  return summary;
}

}  // namespace

RecallSummary recall_rows(const PartitionView& partition, const RecallQuery& query,
                          std::vector<RecallHit>& out) {
  ScratchPool::Scratch taken = ScratchPool::shared().take();
  const RecallSummary summary = recall_with(partition, query, *taken, out);
  // A scratch that is much larger than it has to be here goes: it was for a partition
  // that may be gone. One of an exception goes too, with what it holds.
  taken->clear();
  const std::size_t needed =
      std::max(kSmallScratch, kLargestShare * partition.rows.slots());
  if (taken->index_plus_one.size() <= needed) {
    ScratchPool::shared().give_back(std::move(taken));
  }
  return summary;
}

}  // namespace vecall

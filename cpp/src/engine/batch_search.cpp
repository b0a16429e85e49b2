#include "engine/batch_search.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "index/flat_search.hpp"
#include "sync/locks.hpp"
#include "sync/run_together.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

// How long one hold of the partition's lock lasts, but for the query that it ends with.
constexpr std::chrono::milliseconds kHold{10};

struct Batch {
  const Partition& partition;
  const BatchQueries& queries;
  std::span<RowId> ids;
  std::span<float> scores;
  std::size_t together;              // queries that a thread takes at once
  std::atomic<std::size_t> next{0};  // the first query that no thread has taken
};

// Some queries and their hits. Keeps its memory between them.
struct Share {
  std::vector<std::size_t> rows;  // of the queries in the batch
  std::vector<SearchQuery> queries;
  std::vector<std::vector<Hit>> hits;
};

// Answers the queries from `begin` to `end`.
void search_some(const Batch& batch, std::size_t begin, std::size_t end, Share& share)
    VECALL_REQUIRES_SHARED(batch.partition.mutex()) {
  const BatchQueries& queries = batch.queries;
  const std::size_t dim = batch.partition.dim();
  share.rows.clear();
  share.queries.clear();
  for (std::size_t row = begin; row < end; ++row) {
    if (queries.is_zero[row] != 0) continue;
    const auto unit = std::span(queries.units).subspan(row * dim, dim);
    share.rows.push_back(row);
    share.queries.push_back(
        {unit, queries.k, queries.ef, queries.exact, queries.filter});
  }
  if (share.rows.empty()) return;
  share.hits.resize(std::max(share.hits.size(), share.rows.size()));
  batch.partition.search(share.queries, std::span(share.hits).first(share.rows.size()));
  for (std::size_t which = 0; which < share.rows.size(); ++which) {
    const std::vector<Hit>& hits = share.hits[which];
    const std::size_t at = share.rows[which] * queries.k;
    for (std::size_t i = 0; i < hits.size(); ++i) {
      batch.ids[at + i] = hits[i].id;
      batch.scores[at + i] = hits[i].score;
    }
  }
}

// Answers queries until none is left. An error is the end for all threads.
void search_until_done(Batch& batch, PauseHook pause) {
  const std::size_t count = batch.queries.is_zero.size();
  Share share;
  try {
    std::size_t row = batch.next.fetch_add(batch.together);
    while (row < count) {
      {
        const auto end = std::chrono::steady_clock::now() + kHold;
        const ReaderLock lock(batch.partition.mutex());
        do {
          search_some(batch, row, std::min(count, row + batch.together), share);
          row = batch.next.fetch_add(batch.together);
        } while (row < count && std::chrono::steady_clock::now() < end);
      }
      pause();
    }
  } catch (...) {
    batch.next = count;
    throw;
  }
}

}  // namespace

void batch_search(const Partition& partition, const BatchQueries& queries,
                  std::size_t threads, PauseHook pause, std::span<RowId> ids,
                  std::span<float> scores) {
  VECALL_ASSERT(queries.k > 0 && ids.size() == queries.is_zero.size() * queries.k &&
                scores.size() == ids.size());
  const std::size_t count = threads_for(std::min(threads, queries.is_zero.size()));
  const std::size_t together =
      std::clamp<std::size_t>(queries.is_zero.size() / count, 1, kMostTogether);
  Batch batch{partition, queries, ids, scores, together};
  run_together(count, [&](std::size_t number) {
    search_until_done(batch, number == 0 ? pause : PauseHook());
  });
}

}  // namespace vecall

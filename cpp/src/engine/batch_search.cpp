#include "engine/batch_search.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "sync/locks.hpp"
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
  std::atomic<std::size_t> next{0};  // the first query that no thread has taken
};

void search_one(const Batch& batch, std::size_t row, std::vector<Hit>& hits)
    VECALL_REQUIRES_SHARED(batch.partition.mutex()) {
  const BatchQueries& queries = batch.queries;
  const std::size_t dim = batch.partition.dim();
  const auto unit = std::span(queries.units).subspan(row * dim, dim);
  batch.partition.search({unit, queries.k, queries.ef, queries.exact, queries.filter},
                         hits);
  for (std::size_t i = 0; i < hits.size(); ++i) {
    batch.ids[row * queries.k + i] = hits[i].id;
    batch.scores[row * queries.k + i] = hits[i].score;
  }
}

// Answers queries until none is left. An error is the end for all threads.
void search_until_done(Batch& batch, PauseHook pause) {
  const std::size_t count = batch.queries.is_zero.size();
  std::vector<Hit> hits;
  try {
    std::size_t row = batch.next++;
    while (row < count) {
      {
        const auto end = std::chrono::steady_clock::now() + kHold;
        const ReaderLock lock(batch.partition.mutex());
        do {
          if (batch.queries.is_zero[row] == 0) search_one(batch, row, hits);
          row = batch.next++;
        } while (row < count && std::chrono::steady_clock::now() < end);
      }
      pause();
    }
  } catch (...) {
    batch.next = count;
    throw;
  }
}

// Threads that are joined at the end of the scope. libc++ has no std::jthread
// before 20.
class Helpers {
 public:
  explicit Helpers(std::size_t most) { threads_.reserve(most); }
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
  }

  // Whether the system had a thread to spare, and memory for it.
  template <typename Work>
  bool start(const Work& work, std::size_t number) {
    VECALL_ASSERT(threads_.size() < threads_.capacity());  // a started one is kept
    try {
      threads_.emplace_back(work, number);
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void batch_search(const Partition& partition, const BatchQueries& queries,
                  std::size_t threads, PauseHook pause, std::span<RowId> ids,
                  std::span<float> scores) {
  VECALL_ASSERT(queries.k > 0 && ids.size() == queries.is_zero.size() * queries.k &&
                scores.size() == ids.size());
  const std::size_t processors =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const std::size_t count =
      std::max<std::size_t>(1, std::min({threads, processors, queries.is_zero.size()}));
  Batch batch{partition, queries, ids, scores};
  std::vector<std::exception_ptr> failures(count);
  const auto help = [&](std::size_t helper) {
    try {
      search_until_done(batch, {});
    } catch (...) {
      failures[helper] = std::current_exception();
    }
  };
  {
    Helpers helpers(count - 1);
    std::size_t started = 1;
    while (started < count && helpers.start(help, started)) ++started;
    search_until_done(batch, pause);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace vecall

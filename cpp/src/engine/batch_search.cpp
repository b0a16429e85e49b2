#include "engine/batch_search.hpp"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "vecall/assert.hpp"

namespace vecall {

namespace {

// Every step-th query from `begin` on.
void search_every(const Partition& partition, const BatchQueries& queries,
                  std::size_t begin, std::size_t step, std::span<RowId> ids,
                  std::span<float> scores) VECALL_REQUIRES_SHARED(partition.mutex()) {
  const std::size_t dim = partition.dim();
  std::vector<Hit> hits;
  for (std::size_t row = begin; row < queries.is_zero.size(); row += step) {
    if (queries.is_zero[row] != 0) continue;
    const auto unit = std::span(queries.units).subspan(row * dim, dim);
    partition.search({unit, queries.k, queries.ef, queries.exact, queries.filter},
                     hits);
    for (std::size_t i = 0; i < hits.size(); ++i) {
      ids[row * queries.k + i] = hits[i].id;
      scores[row * queries.k + i] = hits[i].score;
    }
  }
}

// Threads that are joined at the end of the scope. libc++ has no std::jthread
// before 20.
class Helpers {
 public:
  Helpers() = default;
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
  }

  // Whether the system had a thread to spare.
  template <typename Work>
  bool start(const Work& work, std::size_t share) {
    threads_.reserve(threads_.size() + 1);  // a started thread is always kept
    try {
      threads_.emplace_back(work, share);
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void batch_search(const Partition& partition, const BatchQueries& queries,
                  std::size_t threads, std::span<RowId> ids, std::span<float> scores) {
  VECALL_ASSERT(queries.k > 0 && ids.size() == queries.is_zero.size() * queries.k &&
                scores.size() == ids.size());
  const std::size_t processors =
      std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const std::size_t count =
      std::max<std::size_t>(1, std::min({threads, processors, queries.is_zero.size()}));
  std::vector<std::exception_ptr> failures(count);
  const auto search_share =
      [&](std::size_t share) VECALL_REQUIRES_SHARED(partition.mutex()) {
        try {
          search_every(partition, queries, share, count, ids, scores);
        } catch (...) {
          failures[share] = std::current_exception();
        }
      };
  {
    Helpers helpers;
    std::size_t started = 1;
    while (started < count && helpers.start(search_share, started)) ++started;
    search_share(0);
    for (std::size_t share = started; share < count; ++share) search_share(share);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace vecall

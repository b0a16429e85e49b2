// How long a search takes while another thread adds rows to the same partition, one at
// a time, and the background links them; beside the same searches of a quiet partition.
//
//   vecall_latency_under_writes [seconds]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "vecall/index.hpp"

namespace vecall {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kDim = 384;
constexpr std::size_t kCentres = 200;
constexpr std::size_t kQueries = 1'000;
constexpr int kRowsPerSecond = 1'000;

// Vectors of norm 1 about some centres.
class Vectors {
 public:
  explicit Vectors(std::uint64_t seed) : random_(seed), centres_(kCentres * kDim) {
    std::mt19937_64 same(1);
    for (float& value : centres_) value = normal_(same);
  }
  void append(std::vector<float>& to) {
    const std::size_t centre = random_() % kCentres * kDim;
    std::vector<float> made(kDim);
    double squares = 0;
    for (std::size_t i = 0; i < kDim; ++i) {
      made[i] = centres_[centre + i] + 0.8F * normal_(random_);
      squares += static_cast<double>(made[i]) * made[i];
    }
    const auto norm = static_cast<float>(std::sqrt(squares));
    for (const float value : made) to.push_back(value / norm);
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::vector<float> centres_;
};

struct Batch {
  std::vector<RowId> ids;
  std::vector<float> vectors;
};

Batch batch_of(RowId first, std::size_t count, Vectors& vectors) {
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) {
    batch.ids.push_back(first + static_cast<RowId>(i));
    vectors.append(batch.vectors);
  }
  return batch;
}

struct Latencies {
  double p50;
  double p99;
  double p999;
  std::size_t searches;
};

// Searches for some seconds, each time with another query, in microseconds.
Latencies measure(const Index& index, const std::vector<float>& queries,
                  double seconds) {
  std::vector<double> times;
  std::vector<Hit> hits;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (std::size_t at = 0; Clock::now() < end; at = (at + 1) % kQueries) {
    const std::span<const float> query(queries.data() + at * kDim, kDim);
    const auto begin = Clock::now();
    index.search(query, {}, hits);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  const auto quantile = [&times](double share) {
    return times[static_cast<std::size_t>(share *
                                          static_cast<double>(times.size() - 1))];
  };
  return {quantile(0.5), quantile(0.99), quantile(0.999), times.size()};
}

void print(const char* kind, const char* when, const Latencies& of) {
  std::printf("%-6s %-7s %9.1f %9.1f %9.1f %10zu\n", kind, when, of.p50, of.p99,
              of.p999, of.searches);
}

void compare(const char* name, IndexKind kind, std::size_t rows, double seconds) {
  Options options;
  options.graph.kind = kind;
  Index index(kDim, options);
  Vectors vectors(2);
  for (std::size_t at = 0; at < rows; at += 1'000) {
    const Batch batch = batch_of(static_cast<RowId>(at), 1'000, vectors);
    index.add(batch.ids, batch.vectors);
  }
  index.build();
  std::vector<float> queries;
  for (std::size_t i = 0; i < kQueries; ++i) vectors.append(queries);
  measure(index, queries, 0.5);  // warm
  const Latencies quiet = measure(index, queries, seconds);

  // Made beforehand, so that the writer's time is that of adding.
  std::vector<Batch> batches;
  const auto count = static_cast<std::size_t>((seconds + 1) * kRowsPerSecond);
  for (std::size_t i = 0; i < count; ++i) {
    batches.push_back(batch_of(static_cast<RowId>(rows + i), 1, vectors));
  }
  std::atomic<bool> over{false};
  std::size_t added = 0;
  std::thread writer([&] {
    auto next = Clock::now();
    for (const Batch& batch : batches) {
      if (over) return;
      index.add(batch.ids, batch.vectors);
      ++added;
      next += std::chrono::microseconds(1'000'000 / kRowsPerSecond);
      std::this_thread::sleep_until(next);
    }
  });
  const auto begin = Clock::now();
  const Latencies busy = measure(index, queries, seconds);
  const std::chrono::duration<double> lasted = Clock::now() - begin;
  over = true;
  writer.join();
  const std::size_t tail = kind == IndexKind::kHnsw ? index.size() - index.linked() : 0;
  print(name, "quiet", quiet);
  print(name, "writes", busy);
  std::printf("%-6s %-7s %9.2f %9.2f %9.2f   %.0f rows/s, %zu not yet linked\n", name,
              "ratio", busy.p50 / quiet.p50, busy.p99 / quiet.p99,
              busy.p999 / quiet.p999, static_cast<double>(added) / lasted.count(),
              tail);
}

}  // namespace

}  // namespace vecall

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10.0;
  if (!(seconds > 0)) return 2;
  std::printf("%-6s %-7s %9s %9s %9s %10s\n", "kind", "", "p50 us", "p99 us",
              "p99.9 us", "searches");
  vecall::compare("hnsw", vecall::IndexKind::kHnsw, 50'000, seconds);
  vecall::compare("flat", vecall::IndexKind::kFlat, 20'000, seconds);
  return 0;
}

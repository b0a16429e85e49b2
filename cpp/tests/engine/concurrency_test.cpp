// One engine under all of its calls at once, while the background links: a campaign for
// the sanitizers, that also checks what comes back.

#include <doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "engine_support.hpp"
#include "vecall/engine.hpp"

namespace vecall::testing {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kDim = 40;
constexpr auto kLasting = 1'100ms;
constexpr std::size_t kIds = 600;     // of a partition
constexpr std::size_t kVersions = 2;  // of each id's vector
constexpr std::size_t kWriters = 2;
constexpr std::size_t kSteadyRows = 20;  // rows at the front that are never removed
constexpr PartitionKey kSteady = {"app", "steady"};
constexpr PartitionKey kCopied = {"app",
                                  "copied"};  // restored from kSteady and dropped
constexpr PartitionKey kComing = {"ap", "pcoming"};  // made and dropped

std::uint64_t number_of(std::size_t id, std::size_t version) {
  return id * kVersions + version;
}

const std::vector<Vector>& vectors() {
  static const std::vector<Vector> all = [] {
    std::vector<Vector> made;
    for (std::size_t i = 0; i < kIds * kVersions; ++i) {
      made.push_back(unit_vector(i, kDim));
    }
    return made;
  }();
  return all;
}

Rows batch_of(const std::vector<std::size_t>& ids, std::size_t version) {
  Rows rows(kDim);
  for (const std::size_t id : ids) {
    RowMeta meta;
    meta.time = static_cast<Micros>(id);
    meta.session = 1 + id % 5;
    meta.position = static_cast<double>(id);
    if (id % 3 == 0 && id >= kSteadyRows) meta.expires = 1'000;
    rows.vector(static_cast<RowId>(id), number_of(id, version));
    rows.meta(meta, {1 + id % 7, 100 + id});
  }
  return rows;
}

// Counts what is wrong with answers; threads may not use doctest's checks freely.
class Judge {
 public:
  template <class HitT>
  void judge(const std::vector<HitT>& hits, std::span<const float> query,
             float HitT::* cosine_of) {
    std::set<RowId> seen;
    for (const HitT& hit : hits) {
      if (hit.id < 0 || hit.id >= static_cast<RowId>(kIds) ||
          !seen.insert(hit.id).second) {
        ++wrong_;
        continue;
      }
      if (query.empty()) continue;
      bool near = false;
      for (std::size_t version = 0; version < kVersions; ++version) {
        const auto& known =
            vectors()[number_of(static_cast<std::size_t>(hit.id), version)];
        near = near || std::abs(cosine(query, known) -
                                static_cast<double>(hit.*cosine_of)) <= 1e-3;
      }
      if (!near) ++wrong_;
    }
    for (std::size_t i = 1; i < hits.size(); ++i) {
      if (hits[i].score > hits[i - 1].score) ++wrong_;
    }
    ++answers_;
  }
  void require(bool holds) {
    if (!holds) ++wrong_;
  }
  [[nodiscard]] int wrong() const { return wrong_; }
  [[nodiscard]] int answers() const { return answers_; }

 private:
  std::atomic<int> wrong_{0};
  std::atomic<int> answers_{0};
};

struct Campaign {
  Engine engine;
  Judge judge;
  std::atomic<bool> over{false};
  // Of each writer's own ids in kSteady, the version that is there.
  std::array<std::map<std::size_t, std::size_t>, kWriters> models;

  explicit Campaign(const Options& options) : engine(kDim, options) {}

  void write(std::size_t writer) {
    std::mt19937_64 random(writer);
    auto& model = models[writer];
    while (!over) {
      std::vector<std::size_t> ids;
      std::vector<RowId> row_ids;
      for (std::size_t i = 1 + random() % 30; i > 0; --i) {
        const std::size_t id = kSteadyRows + writer + random() % 290 * kWriters;
        ids.push_back(id);
        row_ids.push_back(static_cast<RowId>(id));
      }
      const std::size_t version = random() % kVersions;
      if (random() % 3 != 0) {
        engine.add(kSteady, batch_of(ids, version));
        for (const std::size_t id : ids) model[id] = version;
        engine.add(kComing, batch_of(ids, version));
      } else {
        std::size_t there = 0;
        for (const std::size_t id : ids) there += model.erase(id);
        judge.require(engine.remove(kSteady, row_ids) == there);
        engine.remove(kComing, row_ids);
      }
    }
  }

  void read(std::size_t reader) {
    std::mt19937_64 random(100 + reader);
    std::vector<Hit> hits;
    std::vector<RecallHit> recalled;
    while (!over) {
      const PartitionKey key =
          std::array{kSteady, kSteady, kCopied, kComing}[random() % 4];
      const std::size_t steady_id = random() % kSteadyRows;
      const Vector& query = vectors()[random() % 2 == 0 ? number_of(steady_id, 0)
                                                        : random() % vectors().size()];
      engine.search(key, {query, 1 + random() % 20, 40, random() % 4 == 0, {}}, hits);
      judge.judge(hits, query, &Hit::score);
      const std::array<TermHash, 2> terms = {100 + steady_id, 1 + random() % 7};
      RecallQuery request;
      if (random() % 4 != 0) request.unit_vector = query;
      request.terms = terms;
      if (random() % 3 == 0) request.filter.now = 2'000;
      if (random() % 3 == 0) request.filter.session = 1 + random() % 5;
      engine.recall(key, request, recalled);
      judge.judge(recalled, request.unit_vector, &RecallHit::similarity);
      // A row that is never removed is always found by its own vector.
      const RowId only[] = {static_cast<RowId>(steady_id)};
      SearchQuery wanted{vectors()[number_of(steady_id, 0)], 1, 40, false, {}};
      wanted.filter.only = only;
      engine.search(kSteady, wanted, hits);
      judge.require(hits.size() == 1 && hits[0].id == only[0] &&
                    hits[0].score > 0.999F);
    }
  }

  void copy() {
    std::mt19937_64 random(7);
    while (!over) {
      const auto bytes = engine.snapshot(kSteady, {});
      engine.restore(kCopied, bytes);
      judge.require(engine.size(kCopied) >= kSteadyRows);
      if (random() % 2 == 0) engine.drop(kCopied);
      if (random() % 4 == 0) engine.drop(kComing);
      judge.require(engine.partitions() <= 3 && engine.nbytes() > 0);
    }
  }

  void run() {
    std::vector<std::size_t> steady_ids;
    for (std::size_t id = 0; id < kSteadyRows; ++id) steady_ids.push_back(id);
    engine.add(kSteady, batch_of(steady_ids, 0));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kWriters; ++i)
      threads.emplace_back([this, i] { write(i); });
    for (std::size_t i = 0; i < 2; ++i) threads.emplace_back([this, i] { read(i); });
    threads.emplace_back([this] { copy(); });
    std::this_thread::sleep_for(kLasting);
    over = true;
    for (std::thread& thread : threads) thread.join();
  }

  // What the writers left is there and nothing else, in the graph or out of it.
  void check_end() {
    std::map<RowId, std::uint64_t> expected;
    for (std::size_t id = 0; id < kSteadyRows; ++id) {
      expected[static_cast<RowId>(id)] = number_of(id, 0);
    }
    for (const auto& model : models) {
      for (const auto& [id, version] : model) {
        expected[static_cast<RowId>(id)] = number_of(id, version);
      }
    }
    CHECK(engine.size(kSteady) == expected.size());
    std::vector<Hit> hits;
    for (const bool linked : {false, true}) {
      CAPTURE(linked);
      if (linked) engine.build(kSteady);
      const Vector& query = vectors()[number_of(3, 0)];
      engine.search(kSteady, {query, kIds, 64, true, {}}, hits);
      REQUIRE(hits.size() == expected.size());
      for (const Hit& hit : hits) {
        REQUIRE(expected.count(hit.id) == 1);
        REQUIRE(std::abs(cosine(query, vectors()[expected[hit.id]]) -
                         static_cast<double>(hit.score)) <= 1e-3);
      }
    }
    std::size_t found = 0;
    for (const auto& [id, number] : expected) {
      engine.search(kSteady, {vectors()[number], 1, 64, false, {}}, hits);
      if (!hits.empty() && hits[0].id == id) ++found;
    }
    CHECK(found >= expected.size() * 98 / 100);
  }
};

Options small_graph(IndexKind kind) {
  Options options;
  GraphOptions& graph = options.graph;
  graph.kind = kind;
  graph.m = 6;
  graph.ef_construction = 30;
  graph.flat_bytes = 100 * 32;  // of 100 rows
  return options;
}

}  // namespace

TEST_CASE("threads add, remove, search, recall, copy and drop while rows are linked") {
  for (const IndexKind kind : {IndexKind::kHnsw, IndexKind::kAuto}) {
    CAPTURE(static_cast<int>(kind));
    Campaign campaign(small_graph(kind));
    campaign.run();
    CHECK(campaign.judge.wrong() == 0);
    CHECK(campaign.judge.answers() > 20);
    campaign.check_end();
  }
}

}  // namespace vecall::testing

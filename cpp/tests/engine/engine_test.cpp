// The public class Engine: what a C++ program may add to it.

#include "vecall/engine.hpp"

#include <doctest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "engine_support.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr PartitionKey kKey = {"app", "user"};

RowBatch batch_of(std::vector<RowId> ids, std::span<const float> vectors) {
  RowBatch batch;
  batch.has_vector.assign(ids.size(), 1);
  batch.ids = std::move(ids);
  batch.vectors = vectors;
  return batch;
}

std::vector<float> vectors_of(RowId begin, RowId end, float norm) {
  std::vector<float> all;
  for (RowId id = begin; id < end; ++id) {
    for (const float value : unit_vector(static_cast<std::uint64_t>(id), kDim)) {
      all.push_back(norm * value);
    }
  }
  return all;
}

std::vector<RowId> ids_of(RowId begin, RowId end) {
  std::vector<RowId> ids;
  for (RowId id = begin; id < end; ++id) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("a vector that is no direction is refused, whichever row it is of") {
  Engine engine(kDim);
  std::vector<float> vectors = vectors_of(0, 3, 1.0F);
  engine.add(kKey, batch_of({0}, std::span(vectors).first(kDim)));
  const auto before = engine.snapshot(kKey, {});
  for (const float bad : {0.0F, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (std::size_t row = 0; row < 3; ++row) {
      CAPTURE(bad);
      CAPTURE(row);
      std::vector<float> given = vectors;
      const auto at = std::span(given).subspan(row * kDim, kDim);
      std::fill(at.begin(), at.end(), bad);
      CHECK_THROWS_AS(engine.add(kKey, batch_of({0, 1, 2}, given)),
                      InvalidArgumentError);
      CHECK_THROWS_AS(engine.add({"app", "nobody"}, batch_of({0, 1, 2}, given)),
                      InvalidArgumentError);
      // A row whose vector is ignored, or replaced by a later row of its id.
      RowBatch batch = batch_of({0, 1, 2}, given);
      batch.has_vector[row] = 0;
      Engine other(kDim);
      CHECK_NOTHROW(other.add(kKey, batch));
      CHECK_THROWS_AS(other.add(kKey, batch_of({7, 7, 7}, given)),
                      InvalidArgumentError);
    }
  }
  CHECK(engine.snapshot(kKey, {}) == before);
  CHECK_FALSE(engine.contains({"app", "nobody"}));
}

TEST_CASE("vectors of any norm are stored as those of norm 1, and come back") {
  for (const float norm : {1e-20F, 0.5F, 3.0F, 1e20F}) {
    CAPTURE(norm);
    Engine engine(kDim);
    engine.add(kKey, batch_of(ids_of(0, 9), vectors_of(0, 9, norm)));
    Engine again(kDim);
    again.restore(kKey, engine.snapshot(kKey, {}));
    for (RowId id = 0; id < 9; ++id) {
      const Vector query = unit_vector(static_cast<std::uint64_t>(id), kDim);
      SearchQuery question;
      question.unit_vector = query;
      question.k = 1;
      std::vector<Hit> hits;
      again.search(kKey, question, hits);
      REQUIRE(hits.size() == 1);
      CHECK(hits[0].id == id);
      CHECK(hits[0].score == doctest::Approx(1.0).epsilon(1e-3));
    }
  }
}

TEST_CASE("one large addition leaves what many small ones leave") {
  // Rows without a vector between them, some that are replaced, and free slots.
  constexpr RowId kRows = 1'000;
  for (const RowId removed : {0, 1, 40}) {
    for (const bool replaces : {false, true}) {
      CAPTURE(removed);
      CAPTURE(replaces);
      Engine large(kDim);
      Engine small(kDim);
      const RowId first = replaces ? 250 : 300;
      for (Engine* engine : {&large, &small}) {
        engine->add(kKey, batch_of(ids_of(0, 300), vectors_of(0, 300, 1.0F)));
        engine->remove(kKey, ids_of(5, 5 + removed));
      }
      const auto vectors = vectors_of(first, kRows, 2.0F);
      RowBatch batch = batch_of(ids_of(first, kRows), vectors);
      for (std::size_t i = 0; i < batch.ids.size(); i += 7) batch.has_vector[i] = 0;
      large.add(kKey, batch);
      for (std::size_t i = 0; i < batch.ids.size(); i += 100) {
        const std::size_t count = std::min<std::size_t>(100, batch.ids.size() - i);
        RowBatch part =
            batch_of({batch.ids.begin() + static_cast<std::ptrdiff_t>(i),
                      batch.ids.begin() + static_cast<std::ptrdiff_t>(i + count)},
                     std::span(vectors).subspan(i * kDim, count * kDim));
        std::copy_n(batch.has_vector.begin() + static_cast<std::ptrdiff_t>(i), count,
                    part.has_vector.begin());
        small.add(kKey, part);
      }
      CHECK(large.snapshot(kKey, {}) == small.snapshot(kKey, {}));
    }
  }
}

TEST_CASE("large additions, removals and searches at once lose no row") {
  constexpr RowId kRows = 600;  // of a call; the largest that is copied at once is less
  constexpr std::size_t kWriters = 3;
  for (int turn = 0; turn < 4; ++turn) {
    Engine engine(kDim);
    engine.add(kKey, batch_of(ids_of(0, 50), vectors_of(0, 50, 1.0F)));
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t writer = 0; writer < kWriters; ++writer) {
      threads.emplace_back([&engine, writer] {
        const auto begin = static_cast<RowId>(1'000 * (writer + 1));
        const auto vectors = vectors_of(begin, begin + kRows, 1.0F);
        engine.add(kKey, batch_of(ids_of(begin, begin + kRows), vectors));
        engine.remove(kKey, ids_of(begin, begin + 100));
        engine.add(kKey, batch_of(ids_of(begin, begin + kRows), vectors));
      });
    }
    std::thread reader([&] {
      const Vector query = unit_vector(7, kDim);
      SearchQuery question;
      question.unit_vector = query;
      question.k = 1;
      std::vector<Hit> hits;
      while (!over) {
        engine.search(kKey, question, hits);
        if (hits.size() != 1 || hits[0].id != 7) ++wrong;
      }
    });
    for (std::thread& thread : threads) thread.join();
    over = true;
    reader.join();
    CHECK(wrong == 0);
    CHECK(engine.size(kKey) == 50 + kWriters * static_cast<std::size_t>(kRows));
    for (std::size_t writer = 0; writer < kWriters; ++writer) {
      for (RowId i = 0; i < kRows; i += 37) {
        const RowId id = static_cast<RowId>(1'000 * (writer + 1)) + i;
        const Vector query = unit_vector(static_cast<std::uint64_t>(id), kDim);
        SearchQuery question;
        question.unit_vector = query;
        question.k = 1;
        std::vector<Hit> hits;
        engine.search(kKey, question, hits);
        REQUIRE(hits.size() == 1);
        REQUIRE(hits[0].id == id);
      }
    }
  }
}

}  // namespace vecall::testing

// The public class Index: what a C++ program sees, with many queries by threads.

#include "vecall/index.hpp"

#include <doctest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "engine_support.hpp"
#include "vecall/engine.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;

Index index_of(std::size_t rows, const Options& options = {}) {
  Index index(kDim, options);
  std::vector<RowId> ids(rows);
  std::iota(ids.begin(), ids.end(), RowId{0});
  std::vector<float> vectors;
  for (std::size_t i = 0; i < rows; ++i) {
    for (const float value : unit_vector(i, kDim)) vectors.push_back(3.0F * value);
  }
  index.add(ids, vectors);
  return index;
}

}  // namespace

TEST_CASE("a batch of queries gives what each query gives, by any number of threads") {
  const Index index = index_of(200);
  constexpr std::size_t kQueries = 7;
  std::vector<float> queries;
  for (std::size_t i = 0; i < kQueries; ++i) {
    Vector query = unit_vector(1'000 + i, kDim);
    if (i == 3) query.assign(kDim, 0.0F);
    queries.insert(queries.end(), query.begin(), query.end());
  }
  const std::vector<RowId> only = {1, 5, 30, 31, 32, 150};
  for (const std::size_t threads : {0, 1, 2, 5, 100}) {
    for (const bool filtered : {false, true}) {
      CAPTURE(threads);
      SearchOptions options{.k = 9};
      if (filtered) options.only = only;
      std::vector<RowId> ids(kQueries * options.k);
      std::vector<float> scores(ids.size());
      index.search_batch(queries, options, threads, ids, scores);
      for (std::size_t row = 0; row < kQueries; ++row) {
        const auto hits = index.search({queries.data() + row * kDim, kDim}, options);
        CHECK(hits.size() == (row == 3 ? 0U : filtered ? only.size() : options.k));
        for (std::size_t i = 0; i < options.k; ++i) {
          const std::size_t at = row * options.k + i;
          CHECK(ids[at] == (i < hits.size() ? hits[i].id : -1));
          CHECK(scores[at] == (i < hits.size()
                                   ? hits[i].score
                                   : -std::numeric_limits<float>::infinity()));
        }
      }
    }
  }
}

TEST_CASE("a batch refuses arrays of other sizes") {
  const Index index = index_of(3);
  std::vector<float> queries(2 * kDim, 1.0F);
  std::vector<RowId> ids(2 * 3);
  std::vector<float> scores(2 * 3);
  CHECK_NOTHROW(index.search_batch(queries, {.k = 3}, 1, ids, scores));
  scores.pop_back();
  CHECK_THROWS_AS(index.search_batch(queries, {.k = 3}, 1, ids, scores),
                  InvalidArgumentError);
  scores.push_back(0);
  queries.pop_back();
  CHECK_THROWS_AS(index.search_batch(queries, {.k = 3}, 1, ids, scores),
                  InvalidArgumentError);
}

TEST_CASE("an index is the same after a trip through bytes, aligned or not") {
  Options options;
  options.graph.kind = IndexKind::kHnsw;
  Index index = index_of(300, options);
  index.build();
  CHECK(index.linked() == 300);
  CHECK(index.remove(std::vector<RowId>{4, 5, 1'000}) == 2);
  const std::vector<std::byte> bytes = index.to_bytes();
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 1);
  for (const auto given :
       {std::span(bytes), std::span<const std::byte>(shifted).subspan(1)}) {
    const Index copy = Index::from_bytes(given);
    CHECK(copy.kind() == IndexKind::kHnsw);
    CHECK(copy.dim() == kDim);
    CHECK(copy.ids() == index.ids());
    CHECK(copy.contains(6));
    CHECK_FALSE(copy.contains(5));
    const Vector query = unit_vector(17, kDim);
    const auto hits = index.search(query);
    const auto again = copy.search(query);
    REQUIRE(hits.size() == again.size());
    for (std::size_t i = 0; i < hits.size(); ++i) {
      CHECK(hits[i].id == again[i].id);
      CHECK(hits[i].score == again[i].score);
    }
  }
}

TEST_CASE("options and arguments outside what is allowed are refused") {
  Options options;
  CHECK_THROWS_AS(Index(0), InvalidArgumentError);
  CHECK_THROWS_AS(Index(kMaxDim + 1), LimitExceededError);
  options.graph.m = 1;
  CHECK_THROWS_AS(Index(kDim, options), InvalidArgumentError);
  options.graph.m = 257;
  CHECK_THROWS_AS(Engine(kDim, options), InvalidArgumentError);
  options.graph = {};
  options.graph.ef_construction = 0;
  CHECK_THROWS_AS(Engine(kDim, options), InvalidArgumentError);

  Index index = index_of(3);
  const std::vector<float> zeros(kDim, 0.0F);
  const std::vector<float> long_one(kDim + 1, 1.0F);
  std::vector<float> no_number(kDim, 1.0F);
  no_number[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<RowId> id = {9};
  CHECK_THROWS_AS(index.add(id, zeros), InvalidArgumentError);
  CHECK_THROWS_AS(index.add(id, long_one), InvalidArgumentError);
  CHECK_THROWS_AS(index.add(id, no_number), InvalidArgumentError);
  CHECK(index.size() == 3);
  CHECK(index.search(zeros).empty());
  CHECK_THROWS_AS(index.search(long_one), DimensionError);
  CHECK_THROWS_AS(index.search(no_number), InvalidArgumentError);
  CHECK_THROWS_AS(index.search(unit_vector(1, kDim), {.k = 0}), InvalidArgumentError);
}

}  // namespace vecall::testing

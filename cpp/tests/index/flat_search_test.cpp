// A scan finds the nearest rows that pass, beside cosines in double.

#include "index/flat_search.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "index/index_support.hpp"
#include "rows/id_map.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 70;
constexpr double kError = 5e-4;  // of a score

// unit_vector(), made once.
const Vector& known(std::uint64_t number) {
  static std::map<std::uint64_t, Vector> made;
  Vector& vector = made[number];
  if (vector.empty()) vector = unit_vector(number, kDim);
  return vector;
}

struct Asked {
  VectorRows& rows;
  Vector unit;
  EncodedQuery encoded;
  RowSelection selection;
  std::vector<double> all;  // true cosines of the rows that may be found, best first

  Asked(VectorRows& given, std::uint64_t number, const std::vector<RowId>* only)
      : rows(given), unit(known(number)) {
    encoded.encode(rows.space(), unit);
    IdMap ids;
    ids.reserve(rows.table().live(), rows.table());
    Filter filter;
    if (only != nullptr) filter.only = *only;
    selection.select(filter, rows.table(), nullptr, {}, ids);
    for (Slot slot = 0; slot < rows.table().slots(); ++slot) {
      if (rows.table().has_vector(slot) && selection.contains(slot)) {
        all.push_back(truth(slot));
      }
    }
    std::sort(all.begin(), all.end(), std::greater<>());
  }
  [[nodiscard]] DenseQuery query(std::size_t k) const {
    return {rows.table(), selection, encoded, k};
  }
  [[nodiscard]] double truth(Slot slot) const {
    return cosine(unit, known(static_cast<std::uint64_t>(rows.table().id(slot))));
  }
  void check(const std::vector<Scored>& best, std::size_t k) const {
    REQUIRE(best.size() == std::min(k, all.size()));
    std::set<Slot> seen;
    for (std::size_t i = 0; i < best.size(); ++i) {
      const Slot slot = best[i].slot;
      REQUIRE(seen.insert(slot).second);
      REQUIRE(rows.table().has_vector(slot));
      REQUIRE(selection.contains(slot));
      REQUIRE(std::abs(best[i].score - truth(slot)) < kError);
      REQUIRE(all[i] - truth(slot) < kError);
      REQUIRE((i == 0 || best[i - 1].score >= best[i].score));
    }
  }
};

// Live rows with vectors, live ones without, and freed slots.
void fill(VectorRows& rows, std::size_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 11 == 5) {
      rows.add_without_vector(i);
    } else {
      rows.add(i);
    }
  }
  for (Slot slot = 3; slot < count; slot += 17) rows.table().release(slot);
}

}  // namespace

TEST_CASE("a scan finds the nearest of all rows, of many and of few") {
  VectorRows rows(kDim);
  fill(rows, 2'000);
  std::vector<RowId> most;
  for (RowId id = 0; id < 2'000; ++id) {
    if (id % 5 != 0) most.push_back(id);
  }
  const std::vector<RowId> few = {1, 2, 3, 5, 900, 901, 1'999, 12'345};
  DenseScratch scratch;
  for (const auto* only :
       std::vector<const std::vector<RowId>*>{nullptr, &most, &few}) {
    for (const std::size_t k : {1, 10, 300}) {
      for (const std::uint64_t number : {0U, 77U, 90'001U}) {
        CAPTURE(k);
        CAPTURE(number);
        const Asked asked(rows, number, only);
        flat_search(asked.query(k), scratch);
        asked.check(scratch.best, k);
      }
    }
  }
}

namespace {

constexpr std::size_t kTopicDim = 200;
constexpr std::size_t kTopics = 40;

// A row of a topic: signs rule most rows of the other topics out.
Vector of_topic(std::uint64_t number) {
  const Vector topic = unit_vector(number % kTopics, kTopicDim);
  const Vector own = unit_vector(1'000 + number, kTopicDim);
  Vector sum(kTopicDim);
  double squares = 0;
  for (std::size_t i = 0; i < kTopicDim; ++i) {
    sum[i] = topic[i] + 1.1F * own[i];
    squares += static_cast<double>(sum[i]) * sum[i];
  }
  for (float& value : sum) value /= static_cast<float>(std::sqrt(squares));
  return sum;
}

// Rows of topics over several chunks, some without a vector, some removed, and what is
// known of them.
struct Topics {
  VectorRows rows{kTopicDim};
  std::vector<Vector> vectors;

  explicit Topics(std::size_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      vectors.push_back(of_topic(i));
      if (i % 19 == 7) {
        rows.add_without_vector(i);
      } else {
        rows.add(i, vectors.back());
      }
    }
    for (Slot slot = 3; slot < count; slot += 23) rows.table().release(slot);
  }
};

}  // namespace

TEST_CASE("a scan by signs finds the nearest, one query alone or several together") {
  Topics topics(2 * kChunkRows + 1'234);
  const RowTable& table = topics.rows.table();
  REQUIRE(table.signs(0) != nullptr);
  IdMap ids;
  ids.reserve(table.live(), table);
  std::vector<RowId> most;
  for (std::size_t id = 0; id < topics.vectors.size(); ++id) {
    if (id % 4 != 0) most.push_back(static_cast<RowId>(id));
  }
  for (const bool filtered : {false, true}) {
    Filter filter;
    if (filtered) filter.only = most;
    RowSelection selection;
    selection.select(filter, table, nullptr, {}, ids);
    for (const std::size_t k : {1U, 10U, 200U}) {
      CAPTURE(filtered);
      CAPTURE(k);
      std::vector<Vector> units;
      std::vector<EncodedQuery> encoded(kMostTogether);
      std::vector<DenseQuery> queries;
      std::vector<DenseScratch> together(kMostTogether);
      for (std::size_t i = 0; i < kMostTogether; ++i) {
        units.push_back(of_topic(50'000 + i * 7));
      }
      for (std::size_t i = 0; i < kMostTogether; ++i) {
        encoded[i].encode(table.space(), units[i]);
        queries.push_back({table, selection, encoded[i], k});
      }
      flat_search_together(queries, together);
      for (std::size_t i = 0; i < kMostTogether; ++i) {
        std::vector<double> all;
        for (Slot slot = 0; slot < table.slots(); ++slot) {
          if (!table.has_vector(slot) || !selection.contains(slot)) continue;
          all.push_back(cosine(units[i], topics.vectors[slot]));
        }
        std::sort(all.begin(), all.end(), std::greater<>());
        DenseScratch alone;
        flat_search(queries[i], alone);
        REQUIRE(alone.best.size() == k);
        REQUIRE(together[i].best.size() == k);
        std::set<Slot> seen;
        for (std::size_t rank = 0; rank < k; ++rank) {
          const Scored& row = alone.best[rank];
          REQUIRE(row.slot == together[i].best[rank].slot);
          REQUIRE(row.score == together[i].best[rank].score);
          REQUIRE(seen.insert(row.slot).second);
          REQUIRE(table.has_vector(row.slot));
          REQUIRE(selection.contains(row.slot));
          REQUIRE(all[rank] - cosine(units[i], topics.vectors[row.slot]) < kError);
        }
      }
    }
  }
}

TEST_CASE("the spread of a scan is that of the cosines") {
  VectorRows rows(kDim);
  fill(rows, 2'000);
  const Asked asked(rows, 90'002, nullptr);
  DenseQuery query = asked.query(5);
  query.want_spread = true;
  DenseScratch scratch;
  const std::vector<double>& all = asked.all;
  double mean = 0;
  for (const double value : all) mean += value / static_cast<double>(all.size());
  double variance = 0;
  for (const double value : all) {
    variance += (value - mean) * (value - mean) / static_cast<double>(all.size());
  }
  const CosineSpread whole = flat_search(query, scratch);
  CHECK(std::abs(whole.mean - mean) < 0.005);
  CHECK(std::abs(whole.deviation - std::sqrt(variance)) < 0.005);
  const CosineSpread sample = sampled_spread(query, 400, scratch);
  CHECK(std::abs(sample.mean - mean) < 0.05);
  CHECK(std::abs(sample.deviation - std::sqrt(variance)) < 0.03);
}

}  // namespace vecall::testing

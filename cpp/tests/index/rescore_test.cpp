// BlockRescorer finds the k best of rows that come in blocks, beside cosines in double.

#include "index/rescore.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "index/index_support.hpp"
#include "kernels/dispatch.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 70;
constexpr std::size_t kRows = 1'200;
constexpr double kError = 5e-4;  // of a score

// Rows of which many lie close to one vector, some are equal and some are gone.
struct Corpus {
  VectorRows rows{kDim};
  std::vector<Vector> vectors;  // by slot
  RowSelection all;

  Corpus() {
    const Vector middle = unit_vector(1'000'000, kDim);
    for (std::size_t i = 0; i < kRows; ++i) {
      Vector vector = unit_vector(i % 9 == 8 ? i - 1 : i, kDim);
      if (i % 3 == 0) {
        const float weight = 0.02F * static_cast<float>(i % 50);
        for (std::size_t at = 0; at < kDim; ++at) {
          vector[at] = middle[at] + weight * vector[at];
        }
        const auto norm = static_cast<float>(std::sqrt(cosine(vector, vector)));
        for (float& value : vector) value /= norm;
      }
      rows.add(i, vector);
      vectors.push_back(vector);
    }
    for (Slot slot = 4; slot < kRows; slot += 13) rows.table().release(slot);
  }
  [[nodiscard]] bool has(Slot slot) { return rows.table().has_vector(slot); }
};

enum class Way { kByEstimate, kWhole, kInTurn, kWholeIfMany };

// What BlockRescorer leaves in scratch.best where the rows come in blocks.
void rescore_blocks(const DenseQuery& query, Way way, std::size_t block,
                    DenseScratch& scratch) {
  scratch.positions.resize(block);
  scratch.reach.resize(block);
  BlockRescorer rescorer(query, scratch);
  REQUIRE(rescorer.scores_whole_blocks());
  const auto passes = [&](Slot slot) { return query.rows.has_vector(slot); };
  std::vector<float> estimates(block);
  for (std::size_t begin = 0; begin < kRows; begin += block) {
    const auto first = static_cast<Slot>(begin);
    const std::size_t count = std::min(block, kRows - begin);
    const bool is_odd = begin / block % 2 == 1;
    if (way == Way::kWhole || (way == Way::kInTurn && is_odd)) {
      rescorer.offer_whole(first, count, passes);
      continue;
    }
    const float* factors = query.rows.factors(first);
    kernels::active().scan(query.encoded.code(), query.rows.high(first), factors, count,
                           estimates.data());
    std::vector<Slot> slots;
    std::vector<float> slot_factors;
    for (std::size_t i = 0; i < count; ++i) {
      if (!passes(first + static_cast<Slot>(i))) continue;
      estimates[slots.size()] = estimates[i];
      slots.push_back(first + static_cast<Slot>(i));
      slot_factors.push_back(factors[i]);
    }
    const std::size_t most = way == Way::kWholeIfMany ? count / 8 : count;
    const std::size_t found = rescorer.offer(
        estimates.data(), slot_factors.data(), slots.size(),
        [&](std::size_t i) { return slots[i]; }, most);
    if (found > most) rescorer.offer_whole(first, count, passes);
  }
  rescorer.finish();
}

}  // namespace

TEST_CASE("BlockRescorer finds the k best, however the blocks are offered") {
  Corpus corpus;
  const RowTable& table = corpus.rows.table();
  DenseScratch scratch;
  for (const std::uint64_t number : {7U, 300U, 1'000'000U}) {
    const Vector unit = unit_vector(number, kDim);
    EncodedQuery encoded;
    encoded.encode(corpus.rows.space(), unit);
    // The true order, and that of the codes, where equal rows come by smaller id.
    std::vector<double> truth;
    std::vector<Scored> by_codes;
    for (Slot slot = 0; slot < kRows; ++slot) {
      if (!corpus.has(slot)) continue;
      truth.push_back(cosine(unit, corpus.vectors[slot]));
      by_codes.push_back({slot, full_cosine(table, encoded, slot, false)});
    }
    std::sort(truth.rbegin(), truth.rend());
    std::stable_sort(
        by_codes.begin(), by_codes.end(),
        [](const Scored& a, const Scored& b) { return a.score > b.score; });
    for (const std::size_t k : {1, 10, 200}) {
      const DenseQuery query{table, corpus.all, encoded, k};
      for (const std::size_t block : {64, 500, 1'024}) {
        for (const Way way :
             {Way::kByEstimate, Way::kWhole, Way::kInTurn, Way::kWholeIfMany}) {
          CAPTURE(number);
          CAPTURE(k);
          CAPTURE(block);
          CAPTURE(static_cast<int>(way));
          rescore_blocks(query, way, block, scratch);
          REQUIRE(scratch.best.size() == k);
          for (std::size_t i = 0; i < k; ++i) {
            const auto [slot, score] = scratch.best[i];
            REQUIRE(slot == by_codes[i].slot);
            REQUIRE(score == by_codes[i].score);
            REQUIRE(std::abs(score - cosine(unit, corpus.vectors[slot])) < kError);
            REQUIRE(std::abs(score - truth[i]) < kError);
          }
        }
      }
    }
  }
}

TEST_CASE("a shortlist is rescored to the k best of it") {
  Corpus corpus;
  const RowTable& table = corpus.rows.table();
  const Vector unit = unit_vector(1'000'000, kDim);
  EncodedQuery encoded;
  encoded.encode(corpus.rows.space(), unit);
  constexpr std::size_t kBest = 20;
  const DenseQuery query{table, corpus.all, encoded, kBest};
  std::vector<float> estimates(kRows);
  kernels::active().scan(encoded.code(), table.high(0), table.factors(0), kRows,
                         estimates.data());
  DenseScratch scratch;
  scratch.shortlist.begin(kBest, estimate_error(query));
  std::vector<double> truth;
  for (Slot slot = 0; slot < kRows; ++slot) {
    if (!corpus.has(slot)) continue;
    scratch.shortlist.offer(slot, estimates[slot]);
    truth.push_back(cosine(unit, corpus.vectors[slot]));
  }
  rescore(query, scratch);
  std::sort(truth.rbegin(), truth.rend());
  REQUIRE(scratch.best.size() == kBest);
  for (std::size_t i = 0; i < kBest; ++i) {
    CHECK(std::abs(scratch.best[i].score - truth[i]) < kError);
  }
}

}  // namespace vecall::testing

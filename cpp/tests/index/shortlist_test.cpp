// What a shortlist may drop: no row within the margin of the k-th best estimate.

#include "index/shortlist.hpp"

#include <doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace vecall::testing {

namespace {

const EstimateError kError = {0.01F, 0.01F, 4.0F, 5.0F};

}  // namespace

TEST_CASE("every row within the margin of the k-th best stays, few others do") {
  std::mt19937_64 random(11);
  std::normal_distribution<float> normal(0.0F, 0.2F);
  Shortlist list;
  for (const std::size_t k : {1UL, 10UL, 200UL}) {
    for (const std::size_t count : {1UL, 63UL, 64UL, 65UL, 5000UL}) {
      CAPTURE(k);
      CAPTURE(count);
      list.begin(k, kError);
      std::vector<float> estimates;
      std::vector<Slot> slots;
      for (Slot slot = 0; slot < count; ++slot) {
        estimates.push_back(std::clamp(normal(random), -1.0F, 1.0F));
        slots.push_back(slot);
      }
      // The first half one by one, the others together.
      const std::size_t half = count / 2;
      for (std::size_t i = 0; i < half; ++i) list.offer(slots[i], estimates[i]);
      std::vector<std::uint32_t> positions;
      list.offer(slots.data() + half, estimates.data() + half, count - half, positions);
      list.settle();
      std::vector<float> sorted = estimates;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      std::vector<bool> stays(count);
      for (std::size_t i = 0; i < list.size(); ++i) {
        REQUIRE(list.estimate(i) == estimates[list.slot(i)]);
        stays[list.slot(i)] = true;
      }
      if (count < k) {
        CHECK(list.size() == count);
        CHECK(list.kth() == -std::numeric_limits<float>::infinity());
        continue;
      }
      const float kth = sorted[k - 1];
      REQUIRE(list.kth() <= kth);
      REQUIRE(list.floor() < list.kth());
      for (std::size_t slot = 0; slot < count; ++slot) {
        if (estimates[slot] >= kth - kError.margin(kth)) REQUIRE(stays[slot]);
        if (stays[slot]) REQUIRE(estimates[slot] >= list.floor());
      }
      if (count == 5000) CHECK(list.size() < count / 2);
    }
  }
}

TEST_CASE("equal estimates all stay, and a shortlist begins empty again") {
  Shortlist list;
  list.begin(3, kError);
  for (Slot slot = 0; slot < 1000; ++slot) list.offer(slot, 0.25F);
  list.settle();
  CHECK(list.size() == 1000);
  list.begin(3, kError);
  CHECK(list.size() == 0);
  list.settle();
  CHECK(list.size() == 0);
  CHECK(list.kth() == -std::numeric_limits<float>::infinity());
}

TEST_CASE("a value of a rank is reached by so many estimates") {
  std::mt19937_64 random(12);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> estimates(3000);
  for (float& estimate : estimates) estimate = uniform(random);
  for (const std::size_t rank : {1UL, 2UL, 50UL, 2999UL, 3000UL}) {
    const float value = rank_value(estimates.data(), estimates.size(), rank);
    const auto reached = static_cast<std::size_t>(
        std::count_if(estimates.begin(), estimates.end(),
                      [value](float estimate) { return estimate >= value; }));
    CHECK(reached >= rank);
    CHECK(reached <= rank + rank / 4 + 1);
  }
  CHECK(rank_value(estimates.data(), estimates.size(), 3001, -1.25F) == -1.25F);
}

}  // namespace vecall::testing

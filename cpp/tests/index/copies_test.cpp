// Rows that hold the query's own vector are found, and no others, beside a std::map.

#include "index/copies.hpp"

#include <doctest.h>

#include <map>
#include <random>
#include <set>

#include "index/index_support.hpp"

namespace vecall::testing {

TEST_CASE("copies of a vector are found while rows come, go and are used again") {
  constexpr std::size_t kDim = 40;
  constexpr std::uint64_t kVectors = 20;
  VectorRows rows(kDim);
  Copies copies;
  std::map<std::uint64_t, std::set<Slot>> model;
  std::map<Slot, std::uint64_t> live;
  std::mt19937_64 random(4);
  const auto found = [&](std::uint64_t number) {
    EncodedQuery query;
    const Vector unit = unit_vector(number, kDim);
    query.encode(rows.space(), unit);
    RowImage image;
    image.make(rows.space(), query);
    std::set<Slot> slots;
    copies.find(rows.table(), image, [&](Slot slot) {
      CHECK(slots.insert(slot).second);
      return true;
    });
    return slots;
  };
  for (int step = 0; step < 6'000; ++step) {
    if (!live.empty() && random() % 10 < 2) {
      auto at = live.lower_bound(static_cast<Slot>(random() % rows.table().slots()));
      if (at == live.end()) at = live.begin();
      copies.remove(rows.table(), at->first);
      copies.remove(rows.table(), at->first);  // it is not here any more
      rows.table().release(at->first);
      model[at->second].erase(at->first);
      live.erase(at);
    } else {
      const std::uint64_t number = random() % kVectors;
      const Slot slot = rows.add(number);
      copies.reserve(rows.table().slots());
      copies.add(rows.table(), slot);
      copies.add(rows.table(), slot);  // once
      model[number].insert(slot);
      live[slot] = number;
    }
    if (step % 1'000 == 999) {
      for (std::uint64_t number = 0; number < kVectors; ++number) {
        REQUIRE(found(number) == model[number]);
      }
      REQUIRE(found(kVectors + 5).empty());
    }
  }
  CHECK(rows.table().slots() > 3'000);
}

TEST_CASE("a visit that has enough ends the search for copies") {
  VectorRows rows(40);
  Copies copies;
  copies.reserve(10);
  for (int i = 0; i < 10; ++i) copies.add(rows.table(), rows.add(3));
  EncodedQuery query;
  const Vector unit = unit_vector(3, 40);
  query.encode(rows.space(), unit);
  RowImage image;
  image.make(rows.space(), query);
  int visits = 0;
  copies.find(rows.table(), image, [&](Slot) { return ++visits < 4; });
  CHECK(visits == 4);
}

}  // namespace vecall::testing

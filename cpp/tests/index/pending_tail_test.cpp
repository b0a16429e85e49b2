// The rows that wait to be linked: none is lost, none is there twice, whatever happens
// while a slice of them is being linked.

#include "index/pending_tail.hpp"

#include <doctest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "index/index_support.hpp"

namespace vecall::testing {

namespace {

std::vector<Slot> copied(std::span<const Slot> slots) {
  return {slots.begin(), slots.end()};
}

std::vector<Slot> end_slice(PendingTail& tail, RowTable& rows) {
  std::vector<Slot> linked;
  linked.reserve(PendingTail::kMostSlice);
  const auto take = [&](Slot slot) { linked.push_back(slot); };
  while (!tail.end_slice(rows, 3, take)) continue;
  return linked;
}

}  // namespace

TEST_CASE("an empty tail has empty slices") {
  VectorRows rows(0);
  PendingTail tail;
  CHECK(tail.empty());
  tail.begin_slice(32);
  CHECK(tail.slice().empty());
  CHECK(end_slice(tail, rows.table()).empty());
  tail.clear(rows.table());
  CHECK(tail.slots().empty());
}

TEST_CASE("rows leave the tail in the order in which they came, and lose their flag") {
  VectorRows rows(0);
  PendingTail tail;
  for (Slot slot = 0; slot < 5; ++slot) {
    rows.add_without_vector(slot);
    tail.reserve(1);
    tail.add(slot, rows.table());
    CHECK(rows.table().is_pending(slot));
  }
  tail.begin_slice(3);
  CHECK(copied(tail.slice()) == std::vector<Slot>{0, 1, 2});
  CHECK(tail.size() == 5);  // scans still look at the slice
  CHECK(rows.table().is_pending(0));
  CHECK(end_slice(tail, rows.table()) == std::vector<Slot>{0, 1, 2});
  CHECK(copied(tail.slots()) == std::vector<Slot>{3, 4});
  CHECK_FALSE(rows.table().is_pending(2));
  CHECK(rows.table().is_pending(3));
  tail.clear(rows.table());
  CHECK(tail.empty());
  CHECK_FALSE(rows.table().is_pending(3));
}

TEST_CASE("a slot of the slice that gets another row waits again, others do not") {
  VectorRows rows(0);
  PendingTail tail;
  constexpr Slot kMost = PendingTail::kMostSlice;
  for (Slot slot = 0; slot < kMost + 3; ++slot) rows.add_without_vector(slot);
  tail.reserve(kMost + 3);
  for (Slot slot = 0; slot < kMost + 3; ++slot) tail.add(slot, rows.table());
  tail.begin_slice(kMost);
  REQUIRE(tail.slice().size() == kMost);
  tail.reserve(4);
  for (const Slot slot : {Slot{0}, kMost - 1, kMost - 1, kMost + 2}) {
    tail.add(slot, rows.table());
  }
  CHECK(tail.size() == kMost + 3);
  CHECK(end_slice(tail, rows.table()).size() == kMost - 2);
  CHECK(copied(tail.slots()) ==
        std::vector<Slot>{kMost, kMost + 1, kMost + 2, 0, kMost - 1});
  // The marks are gone with the slice.
  tail.begin_slice(kMost);
  CHECK(end_slice(tail, rows.table()).size() == 5);
  CHECK(tail.empty());
}

TEST_CASE("a slice that an error ended begins again, and the tail can be cleared") {
  VectorRows rows(0);
  PendingTail tail;
  for (Slot slot = 0; slot < 4; ++slot) rows.add_without_vector(slot);
  tail.reserve(4);
  for (Slot slot = 0; slot < 4; ++slot) tail.add(slot, rows.table());
  tail.begin_slice(3);
  tail.reserve(1);
  tail.add(1, rows.table());
  tail.begin_slice(2);  // links the new row of slot 1 as well
  CHECK(end_slice(tail, rows.table()) == std::vector<Slot>{0, 1});
  tail.begin_slice(2);
  tail.clear(rows.table());
  CHECK(tail.slice().empty());
  CHECK(end_slice(tail, rows.table()).empty());
}

TEST_CASE("the end of a slice allocates nothing, however many rows came meanwhile") {
  VectorRows rows(0);
  PendingTail tail;
  constexpr Slot kSlice = 32;
  for (Slot slot = 0; slot < 20 * kSlice; ++slot) rows.add_without_vector(slot);
  tail.reserve(kSlice);
  for (Slot slot = 0; slot < kSlice; ++slot) tail.add(slot, rows.table());
  tail.begin_slice(kSlice);
  for (Slot slot = 0; slot < kSlice; ++slot) {
    tail.reserve(1);
    tail.add(slot, rows.table());
  }
  // Rows that fill what is left of the memory, one by one.
  for (Slot slot = kSlice; slot < 20 * kSlice; ++slot) {
    tail.reserve(1);
    tail.add(slot, rows.table());
    const std::size_t room = tail.nbytes() / sizeof(Slot);
    REQUIRE(room >= tail.size() + kSlice);
  }
  const std::size_t bytes = tail.nbytes();
  CHECK(end_slice(tail, rows.table()).empty());
  CHECK(tail.nbytes() == bytes);
  CHECK(tail.size() == 20 * kSlice);
}

TEST_CASE("under any order of calls the tail is a queue without doubles") {
  VectorRows rows(0);
  constexpr Slot kSlots = 150;
  for (Slot slot = 0; slot < kSlots; ++slot) rows.add_without_vector(slot);
  PendingTail tail;
  std::mt19937_64 random(21);
  std::deque<Slot> model;
  std::size_t slice = 0;
  std::set<Slot> replaced;
  for (int step = 0; step < 20'000; ++step) {
    const auto what = random() % 20;
    if (what < 16) {
      const auto slot = static_cast<Slot>(random() % kSlots);
      const auto at = std::find(model.begin(), model.end(), slot);
      if (at == model.end()) {
        model.push_back(slot);
      } else if (static_cast<std::size_t>(at - model.begin()) < slice) {
        replaced.insert(slot);
      }
      tail.reserve(1);
      tail.add(slot, rows.table());
    } else if (what < 17) {
      const std::size_t most = random() % (PendingTail::kMostSlice + 1);
      slice = std::min(most, model.size());
      replaced.clear();
      tail.begin_slice(most);
    } else if (what < 19) {
      std::vector<Slot> expected;
      std::vector<Slot> again;
      for (std::size_t i = 0; i < slice; ++i) {
        const Slot slot = model.front();
        model.pop_front();
        (replaced.contains(slot) ? again : expected).push_back(slot);
      }
      model.insert(model.end(), again.begin(), again.end());
      slice = 0;
      replaced.clear();
      REQUIRE(end_slice(tail, rows.table()) == expected);
    } else if (random() % 20 == 0) {
      model.clear();
      slice = 0;
      replaced.clear();
      tail.clear(rows.table());
    }
    REQUIRE(copied(tail.slots()) == std::vector<Slot>(model.begin(), model.end()));
    REQUIRE(tail.slice().size() == slice);
    for (Slot slot = 0; slot < kSlots; ++slot) {
      const bool waits = std::find(model.begin(), model.end(), slot) != model.end();
      REQUIRE(rows.table().is_pending(slot) == waits);
    }
  }
}

}  // namespace vecall::testing

// The holders of a term, beside std::map.

#include "terms/posting_list.hpp"

#include <doctest.h>

#include <array>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace vecall::testing {

TEST_CASE("the holders of a term are those of std::map, few and many") {
  std::mt19937_64 random(4);
  std::vector<Posting> sorted;
  for (Slot slot = 0; slot < 2'000; ++slot) sorted.push_back({2 * slot, 1 + slot % 7});
  std::vector<Posting> slab(PostingList::room_for(sorted.size()));
  for (const auto& [range, first] :
       {std::pair{Slot{40}, 0}, {Slot{40}, 20}, {Slot{9000}, 0}, {Slot{9000}, 2'000}}) {
    const auto in_slab = std::span(sorted).first(static_cast<std::size_t>(first));
    PostingList list(in_slab, slab.data());
    std::map<Slot, std::uint32_t> model;
    for (const Posting& posting : in_slab) model[posting.slot] = posting.count;
    for (int step = 0; step < 60'000; ++step) {
      const auto slot = static_cast<Slot>(random() % range);
      if (random() % 10 < (step < 40'000 ? 3U : 9U)) {
        REQUIRE(list.erase(slot) == (model.erase(slot) > 0));
      } else if (!model.contains(slot)) {
        const auto count = static_cast<std::uint32_t>(1 + random() % 5);
        const std::size_t before = list.nbytes();
        const std::size_t grown = list.insert({slot, count});
        REQUIRE(list.nbytes() - before == grown);
        model[slot] = count;
      }
      REQUIRE(list.size() == model.size());
      REQUIRE(list.contains(slot) == model.contains(slot));
      if (step % 2000 != 0) continue;
      auto expected = model.begin();
      list.for_each([&](const Posting& posting) {
        REQUIRE(expected != model.end());
        REQUIRE(posting.slot == expected->first);
        REQUIRE(posting.count == expected->second);
        ++expected;
      });
      REQUIRE(expected == model.end());
      std::vector<Posting> now;
      for (const auto& [at, count] : model) now.push_back({at, count});
      CHECK(PostingList(now).size() == model.size());
    }
    for (Slot slot = 0; slot < range; ++slot) list.erase(slot);
    CHECK(list.empty());
    CHECK(list.nbytes() <= 128 * sizeof(Posting));
    CHECK_FALSE(list.contains(3));
  }
}

TEST_CASE("an empty list of holders has no runs") {
  PostingList list;
  const PostingList of_nothing{std::span<const Posting>()};
  for (const PostingList* empty : std::array{&std::as_const(list), &of_nothing}) {
    int runs = 0;
    empty->for_each_run([&runs](std::span<const Posting>) { ++runs; });
    CHECK(runs == 0);
    CHECK(empty->empty());
    CHECK_FALSE(empty->contains(0));
  }
  CHECK_FALSE(list.erase(0));
}

}  // namespace vecall::testing

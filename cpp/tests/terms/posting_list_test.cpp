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
  for (const Slot range : {Slot{40}, Slot{9000}}) {
    PostingList list;
    std::map<Slot, std::uint32_t> model;
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
      std::vector<Posting> sorted;
      for (const auto& [at, count] : model) sorted.push_back({at, count});
      CHECK(PostingList(sorted).size() == model.size());
    }
    for (Slot slot = 0; slot < range; ++slot) list.erase(slot);
    CHECK(list.empty());
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

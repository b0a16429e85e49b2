// Names as numbers, beside std::map.

#include "rows/label_dictionary.hpp"

#include <doctest.h>

#include <map>
#include <random>
#include <set>
#include <utility>

namespace vecall::testing {

TEST_CASE("a name has one number as long as a row has the name") {
  std::mt19937_64 random(9);
  LabelDictionary names;
  std::map<LabelDictionary::Hash, std::pair<LabelDictionary::Number, int>> model;
  for (int step = 0; step < 20'000; ++step) {
    const LabelDictionary::Hash hash = (1 + random() % 300) << 40;
    const auto known = model.find(hash);
    if (known != model.end() && random() % 2 == 0) {
      const bool is_last = --known->second.second == 0;
      REQUIRE(names.release(known->second.first) == is_last);
      if (is_last) model.erase(known);
    } else {
      const LabelDictionary::Number number = names.acquire(hash);
      if (known == model.end()) {
        model[hash] = {number, 1};
      } else {
        REQUIRE(number == known->second.first);
        ++known->second.second;
      }
    }
    if (step % 1000 != 0) continue;
    std::set<LabelDictionary::Number> numbers;
    for (const auto& [name, entry] : model) {
      REQUIRE(names.find(name) == entry.first);
      REQUIRE(names.hash(entry.first) == name);
      REQUIRE(entry.first < names.numbers());
      numbers.insert(entry.first);
    }
    REQUIRE(numbers.size() == model.size());
    REQUIRE_FALSE(numbers.contains(LabelDictionary::kNone));
  }
  CHECK(names.numbers() <= 301);  // numbers are used again
}

TEST_CASE("hash 0 is no name, and an unknown name has no number") {
  LabelDictionary names;
  CHECK(names.acquire(0) == LabelDictionary::kNone);
  CHECK(names.find(0) == LabelDictionary::kNone);
  CHECK(names.hash(LabelDictionary::kNone) == 0);
  CHECK_FALSE(names.release(LabelDictionary::kNone));
  CHECK(names.find(5) == LabelDictionary::kUnknown);
  CHECK(names.numbers() == 1);
  names.release(names.acquire(5));
  CHECK(names.find(5) == LabelDictionary::kUnknown);
}

}  // namespace vecall::testing

// The numbers of terms, beside std::map.

#include "terms/term_map.hpp"

#include <doctest.h>

#include <cstdint>
#include <map>
#include <random>

namespace vecall::testing {

TEST_CASE("the numbers of terms are those of std::map, through growth and erasure") {
  std::mt19937_64 random(6);
  // Few terms that lie side by side, and hashes from all 64 bits.
  for (const TermHash range : {TermHash{300}, TermHash{0}}) {
    TermMap terms;
    std::map<TermHash, TermMap::Number> model;
    CHECK(terms.find(1) == TermMap::kNone);
    for (std::uint32_t step = 0; step < 60'000; ++step) {
      TermHash term = range == 0 ? random() : random() % range;
      if (range == 0 && !model.empty() && random() % 2 == 0) {
        term = model.upper_bound(term) == model.end() ? model.begin()->first
                                                      : model.upper_bound(term)->first;
      }
      const auto known = model.find(term);
      REQUIRE(terms.find(term) ==
              (known == model.end() ? TermMap::kNone : known->second));
      if (known == model.end()) {
        terms.reserve(terms.size() + 1);
        terms.emplace(term, step);
        model[term] = step;
      } else if (random() % 10 < (step < 40'000 ? 3U : 9U)) {
        terms.erase(term);
        model.erase(known);
        REQUIRE(terms.find(term) == TermMap::kNone);
      }
      REQUIRE(terms.size() == model.size());
    }
    for (const auto& [term, number] : model) REQUIRE(terms.find(term) == number);
  }
}

TEST_CASE("a term of zero is a term, and room for terms is room for them all") {
  TermMap terms;
  terms.reserve(100);
  const std::size_t bytes = terms.nbytes();
  for (TermMap::Number number = 0; number < 100; ++number) {
    terms.emplace(number, number);
  }
  CHECK(terms.nbytes() == bytes);
  CHECK(terms.find(0) == 0);
  CHECK(terms.find(99) == 99);
  CHECK(terms.find(100) == TermMap::kNone);
}

}  // namespace vecall::testing

// BM25 of an inverted index, beside the formula over all rows.

#include "terms/postings.hpp"

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace vecall::testing {

namespace {

using Words = std::vector<TermHash>;
using Model = std::map<Slot, Words>;

double count_in(const Words& words, TermHash term) {
  return static_cast<double>(std::count(words.begin(), words.end(), term));
}

// Robertson and Zaragoza's formula in double, without parts.
double bm25_of(const Model& rows, const Words& query, Slot slot) {
  double documents = 0;
  double total = 0;
  for (const auto& [_, words] : rows) {
    documents += words.empty() ? 0 : 1;
    total += static_cast<double>(words.size());
  }
  const Words& mine = rows.at(slot);
  double score = 0;
  for (const TermHash term : query) {
    double holders = 0;
    for (const auto& [_, words] : rows) holders += count_in(words, term) > 0 ? 1 : 0;
    const double idf = std::log(1 + (documents - holders + 0.5) / (holders + 0.5));
    const double length = static_cast<double>(mine.size()) / (total / documents);
    const double count = count_in(mine, term);
    score += idf * count * 1.9 / (count + 0.9 * (0.25 + 0.75 * length));
  }
  return score;
}

void check_scores(const Postings& postings, const Model& rows, const Words& query,
                  TermScores& scores) {
  postings.score(query, scores);
  std::vector<Slot> touched = scores.touched;
  std::sort(touched.begin(), touched.end());
  REQUIRE(std::adjacent_find(touched.begin(), touched.end()) == touched.end());
  for (const auto& [slot, _] : rows) {
    const double expected = bm25_of(rows, query, slot);
    const bool found = std::binary_search(touched.begin(), touched.end(), slot);
    REQUIRE(found == (expected > 0));
    if (found) REQUIRE(scores.of_slot[slot].bm25 == doctest::Approx(expected));
  }
  scores.clear();
  for (const TermScore& score : scores.of_slot) REQUIRE(score.bm25 == 0.0F);
}

}  // namespace

TEST_CASE("BM25 is that of the rows that are there, while rows come and go") {
  std::mt19937_64 random(5);
  Postings postings;
  Model rows;
  TermScores scores;
  for (int step = 0; step < 600; ++step) {
    const auto slot = static_cast<Slot>(random() % 60);  // slots are used again
    if (rows.contains(slot)) {
      postings.remove(slot);
      rows.erase(slot);
    } else {
      Words words(random() % 9);
      for (TermHash& word : words) word = 1 + random() % 12;
      postings.add(slot, words);
      rows[slot] = words;
    }
    if (step % 20 == 0) check_scores(postings, rows, {1, 2, 2, 7, 99}, scores);
  }
  while (!rows.empty()) {
    postings.remove(rows.begin()->first);
    rows.erase(rows.begin());
  }
  CHECK(postings.terms() == 0);
  CHECK(postings.steps(Words{1, 2, 7}) == 0);
}

TEST_CASE("a query without words, or of unknown ones, finds no row") {
  Postings postings;
  TermScores scores;
  postings.score(Words{1}, scores);  // nothing was ever added
  CHECK(scores.touched.empty());
  postings.add(3, Words{1, 2});
  postings.score({}, scores);
  CHECK(scores.touched.empty());
  CHECK(scores.query_idf == 0.0F);
  postings.score(Words{1 | kPartTerm}, scores);  // optional terms alone
  CHECK(scores.touched.empty());
  postings.score(Words{77}, scores);
  CHECK(scores.touched.empty());
  CHECK(scores.query_idf > 0.0F);
}

TEST_CASE("a row without words has no score and can be removed") {
  Postings postings;
  postings.add(70'000, {});
  postings.remove(70'000);
  postings.remove(80'000);  // never added
  CHECK(postings.terms() == 0);
  CHECK(postings.list_of(0) == nullptr);
}

TEST_CASE("an optional term adds half and covers nothing of the query") {
  Postings postings;
  postings.add(0, Words{1, 5});
  postings.add(1, Words{1});
  postings.add(2, Words{9});
  TermScores scores;
  postings.score(Words{1}, scores);
  const float idf = scores.query_idf;
  scores.clear();
  postings.score(Words{1, 5 | kPartTerm}, scores);
  CHECK(scores.query_idf == idf);
  CHECK(scores.of_slot[0].matched > scores.of_slot[1].matched);
  CHECK(scores.of_slot[0].bm25 > scores.of_slot[1].bm25);
  CHECK(scores.of_slot[2].bm25 == 0.0F);
  scores.clear();
  // The word is in the query already: it gains nothing as an optional term.
  postings.score(Words{1}, scores);
  const float plain = scores.of_slot[0].bm25;
  scores.clear();
  postings.score(Words{1, 1 | kPartTerm}, scores);
  CHECK(scores.of_slot[0].bm25 == plain);
}

TEST_CASE("the memory of removed words is given back") {
  Postings postings;
  Words words(500);
  for (TermHash term = 0; term < words.size(); ++term) words[term] = 1 + term;
  postings.add(0, words);
  postings.remove(0);
  const std::size_t empty = postings.nbytes();
  for (int round = 0; round < 20; ++round) {
    postings.add(0, words);
    CHECK(postings.nbytes() > empty);
    postings.remove(0);
    CHECK(postings.nbytes() == empty);
  }
}

}  // namespace vecall::testing

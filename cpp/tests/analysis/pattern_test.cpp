// What patterns match, as Python's `re` does. tests/lexical/test_latin_analysis.py
// compares the periods of queries with those of the package.

#include "analysis/pattern.hpp"

#include <doctest.h>

#include <string>

#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

TextRules rules() {
  TextRules made;
  for (char16_t letter = 0; letter < 128; ++letter) {
    made.letters.emplace_back(letter, std::u16string(1, letter));
    const bool is_digit = letter >= u'0' && letter <= u'9';
    if (is_digit) made.digits += letter;
    if (is_digit || (letter >= u'a' && letter <= u'z') || letter == u'_') {
      made.word += letter;
    }
  }
  return made;
}

// The first match of a pattern from a place on, in brackets.
std::u16string found(View pattern, View text, std::size_t from = 0) {
  const Alphabet alphabet(rules());
  PatternMatch match;
  if (!Pattern(alphabet, pattern).search(text, from, match)) return u"";
  const std::u16string all(text);
  return all.substr(0, match.begin) + u"[" +
         all.substr(match.begin, match.end - match.begin) + u"]" +
         all.substr(match.end);
}

}  // namespace

TEST_CASE("the first alternative that leads to a match is taken") {
  CHECK(found(u"a|ab", u"xab") == u"x[a]b");
  CHECK(found(u"(?:a|ab)c", u"abac") == u"ab[ac]");
  CHECK(found(u"(?:may|march|march_)(?!\\w)", u"march_ march") == u"[march_] march");
  CHECK(found(u"(?:in|in the) (?:the)?day", u"in the day") == u"[in the day]");
}

TEST_CASE("what may repeat takes the most that leads to a match") {
  CHECK(found(u"\\d{1,2}3", u"1233") == u"[123]3");
  CHECK(found(u"a?[b]+b", u"abbb") == u"[abbb]");
  CHECK(found(u"(?:x ?){0,2}\\Z", u"x xx") == u"x [xx]");
  CHECK(found(u"[\\W_]*b", u"a _-b") == u"a[ _-b]");
}

TEST_CASE("a pattern sees what stands before and after") {
  CHECK(found(u"(?<!\\w)a(?!\\w)", u"ba ab a") == u"ba ab [a]");
  CHECK(found(u"(?<!\\w)a", u"ba", 1).empty());
  CHECK(found(u"(?<=\\w{3})[.!] ", u"ab. abc! ") == u"ab. abc[! ]");
  CHECK(found(u"\\bb\\b", u"ab b") == u"ab [b]");
  CHECK(found(u"(?!)", u"ab").empty());
}

TEST_CASE("a group has the text of the branch that matched") {
  const Alphabet alphabet(rules());
  const Pattern pattern(alphabet, u"(?:(?P<p>in) )?(?P<k>may|june)(?P<y>)");
  PatternMatch match;
  CHECK(pattern.search(u"x june", 0, match));
  CHECK(!match.has(Group::kP));
  CHECK(match.of(u"x june", Group::kK) == u"june");
  CHECK(match.has(Group::kY));
  CHECK(match.of(u"x june", Group::kY).empty());
  CHECK(pattern.match(u"in may", 0, match));
  CHECK(match.of(u"in may", Group::kP) == u"in");
  CHECK(!pattern.match(u"in may", 1, match));
  CHECK(pattern.matches_all(u"in may"));
  CHECK(!pattern.matches_all(u"in mayo"));
}

TEST_CASE("a text that is no pattern is refused") {
  const Alphabet alphabet(rules());
  for (const View text : {u"(a", u"a)", u"[a", u"a{", u"a{2,1}", u"(?P<other>a)", u".",
                          u"[^a]", u"\\d\\", u"(?=a)", u"*"}) {
    CHECK_THROWS_AS(Pattern(alphabet, text), InvalidArgumentError);
  }
}

}  // namespace vecall::testing

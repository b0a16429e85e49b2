// Terms of small tables of rules, words that threads learn at once, and a full table.
// tests/lexical/test_latin_analysis.py compares the terms with those of the package.

#include "vecall/text_analyzer.hpp"

#include <doctest.h>

#include <limits>
#include <string>
#include <thread>

#include "analysis/word_table.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

using Terms = std::vector<std::uint64_t>;
using Outcome = TextAnalyzer::Outcome;

constexpr std::uint64_t kPart = std::uint64_t{1} << 63;
constexpr std::uint64_t kQuestion = 101;
constexpr std::uint64_t kTime = 102;
constexpr std::uint64_t kDated = 103;

TextRules rules() {
  TextRules made;
  for (char16_t letter = 0; letter < 128; ++letter) {
    const bool is_capital = letter >= u'A' && letter <= u'Z';
    const auto small = static_cast<char16_t>(is_capital ? letter + 32 : letter);
    made.letters.emplace_back(letter, std::u16string(1, small));
    const bool is_letter = small >= u'a' && small <= u'z';
    const bool is_digit = letter >= u'0' && letter <= u'9';
    if (is_letter) made.alphabetic += letter;
    if (is_digit) made.digits += letter;
    if (is_letter || is_digit || letter == u'_') made.word += letter;
  }
  made.letters.emplace_back(u'\u00e9', u"e");
  made.letters.emplace_back(u'\u00df', u"ss");
  made.word += u"\u00e9\u00df";
  made.alphabetic += u"\u00e9\u00df";
  made.apostrophes = u"'";
  made.vowels = u"aeiouh";
  made.closing = u"\"). ";
  made.stop_words = {{u"the", u"is"}, {u"der", u"ist"}, {u"le", u"est"}};
  made.german = 1;
  made.turk = 2;
  made.telling = {u"der", u"ist", u"est"};
  made.time_words = {u"monday"};
  made.opening = {u"monday", u"week"};
  made.elided = {{u"l", {2}}};
  made.units = {u"am"};
  made.ordinals = {u"st"};
  made.endings = {u"heit"};
  made.months.assign(12, u"month");
  made.user = u"user";
  made.question = kQuestion;
  made.time = kTime;
  made.dated = kDated;
  return made;
}

TextAnalyzer::Text text_of(std::u16string_view text) {
  return {text.data(), text.size(), sizeof(char16_t)};
}

// The words of a memory are 1, 2, ... by their first place in `known`.
class Analysis {
 public:
  Terms terms(std::u16string_view text, std::u16string_view author = {},
              std::optional<double> time = {}) {
    TextAnalyzer::Batch batch(analyzer_);
    const TextAnalyzer::Memory memory{text_of(text), text_of(author), time};
    Terms out;
    Outcome outcome = batch.analyse(memory, out);
    if (outcome == Outcome::kUnknownWords) {
      CHECK(out.empty());
      for (std::size_t i = 0; i <= TextAnalyzer::kAuthors; ++i) {
        const auto words = batch.unknown(i);
        Terms learned;
        for (const auto& word : words) learned.push_back(number(i, word));
        batch.learn(i, learned);
      }
      outcome = batch.analyse(memory, out);
    }
    CHECK(outcome == Outcome::kDone);
    return out;
  }

  std::uint64_t number(std::size_t language, const std::u16string& word) {
    if (word == u"the" || word == u"is" || word == u"der" || word == u"est") return 0;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i] == word) return 1000 * language + i + 1;
    }
    known.push_back(word);
    return 1000 * language + known.size();
  }

  std::vector<std::u16string> known;

 private:
  TextAnalyzer analyzer_{rules()};
};

}  // namespace

TEST_CASE("words lose capitals, accents, apostrophes and stop words") {
  Analysis analysis;
  analysis.known = {u"nate", u"cafe", u"isnt", u"strasse"};
  CHECK(analysis.terms(u"The CAF\u00e9 isn't Nate's stra\u00dfe") == Terms{2, 3, 1, 4});
}

TEST_CASE("a text in another language has the English terms too") {
  Analysis analysis;
  analysis.known = {u"ecole", u"rouge"};
  CHECK(analysis.terms(u"l'ecole est rouge") == Terms{2001, 2002, 1, 2});
}

TEST_CASE("identifiers and numbers give their parts") {
  Analysis analysis;
  analysis.known = {u"the", u"openaikey", u"open",  u"ai",     u"key",
                    u"abc", u"12",        u"abc12", u"openai", u"aikey"};
  CHECK(analysis.terms(u"the openAIKey abc12") ==
        Terms{2, 8, 3, 4, 5, 6, 7, 9 | kPart, 2 | kPart, 10 | kPart});
  CHECK(analysis.terms(u"the c++") == Terms{11, 12 | kPart});
  CHECK(analysis.known.back() == u"c");
}

TEST_CASE("questions and times are marked; names and dates are terms") {
  Analysis analysis;
  analysis.known = {u"tea", u"monday", u"nate", u"1", u"month", u"1970", u"2"};
  CHECK(analysis.terms(u"the tea?)") == Terms{1, kQuestion});
  CHECK(analysis.terms(u"the tea monday") == Terms{1, 2, kTime});
  CHECK(analysis.terms(u"the 2:12") == Terms{7, 8, kTime, 9 | kPart});
  CHECK(analysis.terms(u"the tea", u"Nate Nate", 86'400.0 - 1e-7) ==
        Terms{1, 3, 3, 7, 5, 6, 7003, kDated});
}

TEST_CASE("long German words are cut") {
  Analysis analysis;
  analysis.known = {u"zahnarzt", u"zahn", u"arzt"};
  CHECK(analysis.terms(u"der zahnarzt") ==
        Terms{1001, 1, 1002 | kPart, 1003 | kPart, 2 | kPart, 3 | kPart});
}

TEST_CASE("letters and times that the tables do not cover are foreign") {
  TextAnalyzer analyzer(rules());
  TextAnalyzer::Batch batch(analyzer);
  Terms out;
  const auto outcome = [&](std::u16string_view text, std::u16string_view author,
                           std::optional<double> time) {
    return batch.analyse({text_of(text), text_of(author), time}, out);
  };
  CHECK(outcome(u"tea \u0431", u"", {}) == Outcome::kForeign);
  CHECK(outcome(u"tea \u00e9 \uffff", u"", {}) == Outcome::kForeign);
  CHECK(outcome(u"tea", u"\u3042", {}) == Outcome::kForeign);
  CHECK(outcome(u"tea", u"", 1e300) == Outcome::kForeign);
  CHECK(outcome(u"tea", u"", std::numeric_limits<double>::quiet_NaN()) ==
        Outcome::kForeign);
  CHECK(batch.analyse({.text = {U"tea", 3, 4}}, out) == Outcome::kForeign);
  CHECK(outcome(u"", u"", {}) == Outcome::kDone);
  CHECK(out.empty());
}

TEST_CASE("a query has optional terms and names; periods need their tables") {
  TextAnalyzer analyzer(rules());
  TextAnalyzer::Batch batch(analyzer);
  TextAnalyzer::QueryTerms out;
  const auto outcome = [&](std::u16string_view text, bool by_period) {
    return batch.analyse({.text = text_of(text), .by_period = by_period}, out);
  };
  CHECK(outcome(u"le tea Nate tea", true) == Outcome::kUnknownWords);
  batch.learn(0, Terms{0, 1, 2});
  batch.learn(TextAnalyzer::kAuthors, Terms{9, 8, 7});
  CHECK(outcome(u"le tea Nate tea", true) == Outcome::kDone);
  CHECK(out.terms == Terms{1, 2, 1});
  CHECK(out.optional == Terms{1 | kPart, 2 | kPart});
  CHECK(out.authors == Terms{9, 8, 7});
  CHECK(outcome(u"tea monday", true) == Outcome::kUnknownTimes);
  CHECK(batch.unknown_periods().empty());
  CHECK(outcome(u"tea 7", true) == Outcome::kUnknownTimes);
  CHECK(outcome(u"an l'an", true) == Outcome::kUnknownTimes);
  CHECK(outcome(u"tea monday", false) == Outcome::kUnknownWords);
  CHECK(outcome(std::u16string(8'193, u' '), true) == Outcome::kForeign);
  CHECK(outcome(std::u16string(8'192, u' '), true) == Outcome::kDone);
  CHECK(out.terms.empty());
}

TEST_CASE("rules that contradict themselves are refused") {
  const auto refuses = [](auto change) {
    TextRules changed = rules();
    change(changed);
    CHECK_THROWS_AS(TextAnalyzer{changed}, InvalidArgumentError);
  };
  refuses([](TextRules& its) { its.letters.emplace_back(u'\u00e6', u"\u00e7"); });
  refuses([](TextRules& its) { its.apostrophes = u"a"; });
  refuses([](TextRules& its) { its.stop_words.resize(8); });
  refuses([](TextRules& its) { its.german = 3; });
  refuses([](TextRules& its) { its.months.pop_back(); });
  refuses([](TextRules& its) { its.elided = {{u"d", {3}}}; });
}

TEST_CASE("terms that do not fit the unknown words are refused") {
  TextAnalyzer analyzer(rules());
  TextAnalyzer::Batch batch(analyzer);
  Terms out;
  CHECK(batch.analyse({.text = text_of(u"the tea")}, out) == Outcome::kUnknownWords);
  CHECK_THROWS_AS(batch.learn(0, Terms{1}), InvalidArgumentError);
  CHECK_THROWS_AS(batch.learn(0, Terms{1, kPart}), InvalidArgumentError);
  batch.learn(0, Terms{0, 1});
  CHECK(batch.analyse({.text = text_of(u"the tea")}, out) == Outcome::kDone);
  CHECK(out == Terms{1});
}

TEST_CASE("a batch keeps its words when the table begins anew") {
  WordTable table({{u"the", 1}}, 1000);
  table.set(u"tea", 0, 7);
  const auto before = table.now();
  for (int i = 0; i < 5000; ++i) {
    const std::string number = std::to_string(i);
    table.set(std::u16string(number.begin(), number.end()), 1, 8);
  }
  const auto after = table.now();
  REQUIRE(before->find(u"tea") != nullptr);
  CHECK(before->find(u"tea")->terms[0] == 7);
  CHECK(before->find(u"tea")->terms[1] == kUnknownTerm);
  CHECK(after->find(u"tea") == nullptr);
  REQUIRE(after->find(u"the") != nullptr);
  CHECK(after->find(u"the")->flags == 1);
}

TEST_CASE("threads that learn the same words find the same terms") {
  TextAnalyzer analyzer(rules());
  constexpr std::size_t kThreads = 4;
  std::vector<Terms> found(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&analyzer, &out = found[t]] {
      for (int i = 0; i < 2000; ++i) {
        const std::string number = std::to_string(i);
        const std::u16string text =
            u"the tea" + std::u16string(number.begin(), number.end());
        TextAnalyzer::Batch batch(analyzer);
        const TextAnalyzer::Memory memory{.text = text_of(text)};
        while (batch.analyse(memory, out) == Outcome::kUnknownWords) {
          for (std::size_t k = 0; k <= TextAnalyzer::kAuthors; ++k) {
            Terms terms;
            for (const auto& word : batch.unknown(k)) terms.push_back(word.size() + k);
            batch.learn(k, terms);
          }
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Terms& each : found) CHECK(each == found[0]);
  CHECK(found[0].size() > 4000);
  CHECK(analyzer.nbytes() > 2000 * sizeof(WordEntry));
}

}  // namespace vecall::testing

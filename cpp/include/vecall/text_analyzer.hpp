#pragma once

// Turns texts in Latin letters into the terms of memories. Its rules are those of the
// Python package, which makes the tables of it and analyses every other text: the terms
// are the same, in the same order. Stems are made by the caller, each word once.
//
// Every method may be called from any thread at any time, also after a fork.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vecall {

// What a language, a word and a letter are. Letters stand for themselves in the texts
// of a class.
struct TextRules {
  using Words = std::vector<std::u16string>;

  // Each letter of the texts that are analysed, and its normal form. A normal form has
  // these letters alone. The ASCII letters are among them.
  std::vector<std::pair<char16_t, std::u16string>> letters;
  std::u16string word;         // parts of words, and the underscore
  std::u16string alphabetic;   // of them
  std::u16string digits;       // likewise
  std::u16string closing;      // may follow a question
  std::u16string apostrophes;  // none is a part of a word
  std::u16string vowels;       // may follow an elided word
  std::u16string turkish;
  std::u16string romanian;  // in a text with these the former are not Turkish

  std::vector<Words> stop_words;  // by language; the first wins ties
  std::size_t german = 0;         // the numbers of languages
  std::size_t turk = 0;
  Words telling;     // stop words that tell a language
  Words time_words;  // they make a text tell a time
  Words opening;     // a query with one may name a period
  std::vector<std::pair<std::u16string, std::vector<std::size_t>>> elided;
  Words units;     // after digits, they are no part of an identifier
  Words ordinals;  // after one or two digits, they tell a time
  Words endings;   // of compounds, which are no part
  Words months;    // twelve

  std::u16string asks_time;    // the pattern of a query's begin; "" is none
  std::u16string user;         // the author whose longer requests are no questions
  std::uint64_t question = 0;  // marks
  std::uint64_t time = 0;
  std::uint64_t dated = 0;
};

// How a match of a pattern of named times is read.
enum class PeriodReader : std::uint8_t {
  kWord,
  kUnit,
  kAgo,
  kRecent,
  kWeekday,
  kMonth,
  kSeason,
  kPartOfDay,
};

// The words and patterns of a language that name times; texts of patterns are those of
// Python. "" is no pattern.
struct PeriodWords {
  using Meanings = std::map<std::u16string, int, std::less<>>;
  using Patterns = std::vector<std::pair<std::u16string, unsigned>>;

  std::vector<Patterns> readers;  // with their `PeriodReader`s
  // A word: its unit, or a part of a day (7 to 10), a weekday (11) or a season (12);
  // and how many lie between it and now.
  std::map<std::u16string, std::pair<int, int>, std::less<>> words;
  Meanings units, numbers, adjectives, weekday_adjectives, weekdays, months, seasons,
      parts;
  std::vector<std::u16string> alone;  // months and seasons without a preposition
  std::u16string bounds, counted, before, after, joins, part, part_of;
};

// What the languages share. The first of them is English.
struct PeriodRules {
  using Opened = std::pair<std::size_t, std::size_t>;  // a language, some readers

  std::vector<std::pair<std::u16string, std::vector<Opened>>> opening;
  std::vector<Opened> of_an;           // what the word "an" opens
  std::vector<std::size_t> languages;  // the number of each as that of a text
  std::vector<std::pair<std::u16string, std::size_t>> only_in;  // words of one language
  std::map<std::u16string, int, std::less<>> months;            // of all languages
  std::vector<std::u16string> dates;                            // six patterns
  std::u16string only_month, year, any_year, relative, of_something, ends, part_of,
      article;
};

class TextAnalyzer {
 public:
  static constexpr std::size_t kMostLanguages = 7;
  static constexpr std::size_t kAuthors = kMostLanguages;  // the "language" of names
  static constexpr std::size_t kMostWords = 100'000;  // kept; then all are forgotten
  static constexpr std::size_t kMostAsked = 256;      // terms, and others, of a query

  // Code units of one or two bytes, as Python stores a text.
  struct Text {
    const void* units = nullptr;
    std::size_t size = 0;
    std::size_t unit_bytes = 1;
  };
  struct Memory {
    Text text = {};
    Text author = {};                 // empty without one
    std::optional<double> time = {};  // seconds since 1970
  };
  struct Query {
    Text text = {};
    bool by_period = true;  // whether it may name a period; else its words are terms
    std::optional<std::int64_t> now = {};  // by the user's clock, in microseconds
  };
  // Its begin and its end, of which one may be open, by the user's clock.
  struct Period {
    std::optional<std::int64_t> from = {};
    std::optional<std::int64_t> until = {};
  };
  struct QueryTerms {
    std::vector<std::uint64_t> terms;     // of its words, in order
    std::vector<std::uint64_t> optional;  // once each
    std::vector<std::uint64_t> authors;   // the marks of its words as names, once each
    bool asks_time = false;
    std::optional<Period> period;  // that it names; its words are no terms
    std::vector<Period> earlier;   // that it may mean as well
  };
  enum class Outcome : std::uint8_t {
    kDone,
    kUnknownWords,  // learn() them and analyse the text again
    kUnknownTimes,  // likewise, learn_periods() of unknown_periods()
    kNeedsTime,     // likewise, with the time
    kForeign,       // a letter, a time or a length that has no rule here
  };

  // Throws InvalidArgumentError for rules that contradict themselves.
  explicit TextAnalyzer(const TextRules& rules);
  ~TextAnalyzer();
  TextAnalyzer(const TextAnalyzer&) = delete;
  TextAnalyzer& operator=(const TextAnalyzer&) = delete;
  TextAnalyzer(TextAnalyzer&&) = delete;
  TextAnalyzer& operator=(TextAnalyzer&&) = delete;

  // Analyses memories with the words that are known when it begins and those that it
  // learns. For one thread; the analyzer outlives it.
  class Batch {
   public:
    explicit Batch(TextAnalyzer& analyzer);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    Batch(Batch&&) = delete;
    Batch& operator=(Batch&&) = delete;

    // Appends the terms of a memory to `out`, if it is done; takes linear time.
    Outcome analyse(const Memory& memory, std::vector<std::uint64_t>& out);
    // Replaces `out`, if it is done.
    Outcome analyse(const Query& query, QueryTerms& out);

    // The words that were unknown in a language, or as words of names.
    [[nodiscard]] std::vector<std::u16string> unknown(std::size_t language) const;

    // The languages whose words of time are unknown; empty if nothing of them is.
    [[nodiscard]] const std::vector<std::size_t>& unknown_periods() const;

    // Learns their terms, in the order of unknown(); 0 stands for no term.
    void learn(std::size_t language, std::span<const std::uint64_t> terms);

   private:
    class State;
    std::unique_ptr<State> state_;
  };

  // Learns how queries name periods. Throws InvalidArgumentError for a pattern without
  // a meaning.
  void learn_periods(const PeriodRules& rules);
  void learn_periods(std::size_t language, const PeriodWords& words);

  // Memory that it holds, in bytes, but for the words and patterns of periods.
  [[nodiscard]] std::size_t nbytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace vecall

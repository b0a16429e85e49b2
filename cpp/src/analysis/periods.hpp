#pragma once

// The period that a query names, by the tables and in the way of
// `vecall.lexical.periods`. Times are microseconds since 1970 by the user's clock.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/pattern.hpp"
#include "analysis/word_table.hpp"
#include "vecall/text_analyzer.hpp"

namespace vecall {

// One language, with its patterns.
struct PeriodLanguage {
  struct Reader {
    Pattern pattern;
    PeriodReader kind;
  };
  using Meanings = PeriodWords::Meanings;

  PeriodLanguage(const Alphabet& alphabet, const PeriodWords& words);

  std::vector<std::vector<Reader>> readers;  // by the vocabulary that opens them
  PeriodWords words;
  Pattern bounds, counted, joins, part, part_of;
  std::optional<Pattern> before, after;
};

// What all languages share.
struct PeriodCommon {
  PeriodCommon(const Alphabet& alphabet, const PeriodRules& rules);

  PeriodRules rules;
  struct Hash : WordHash {
    using is_transparent = void;
  };
  std::unordered_map<std::u16string, std::vector<PeriodRules::Opened>, Hash,
                     std::equal_to<>>
      opening;
  std::map<std::u16string, std::size_t, std::less<>> only_in;
  std::vector<Pattern> dates;
  Pattern only_month, year, any_year, relative, of_something, ends, part_of, article;
};

// The languages, each from when it is learned.
class PeriodTables {
 public:
  static constexpr std::size_t kMost = 32;  // languages

  PeriodTables() = default;
  ~PeriodTables();
  PeriodTables(const PeriodTables&) = delete;
  PeriodTables& operator=(const PeriodTables&) = delete;
  PeriodTables(PeriodTables&&) = delete;
  PeriodTables& operator=(PeriodTables&&) = delete;

  [[nodiscard]] const PeriodCommon* common() const noexcept { return common_.load(); }
  [[nodiscard]] const PeriodLanguage* language(std::size_t number) const noexcept {
    return languages_[number].load();
  }
  // Later ones of the same number do nothing.
  void learn(std::unique_ptr<PeriodCommon> common);
  void learn(std::size_t number, std::unique_ptr<PeriodLanguage> language);

 private:
  std::atomic<PeriodCommon*> common_ = nullptr;
  std::array<std::atomic<PeriodLanguage*>, kMost> languages_ = {};
};

struct NamedPeriod {
  TextAnalyzer::Period period;
  std::vector<TextAnalyzer::Period> earlier;  // the latest year first
  std::u16string rest;  // the query without the words that name it
};

struct PeriodQuery {
  View folded;                  // with single spaces
  std::span<const View> words;  // those of time, and "an"
  std::size_t language;         // its number
  std::int64_t now;
};

// `unknown` are the languages that have to be learned first, if there are any.
std::optional<NamedPeriod> find_period(const PeriodTables& tables,
                                       const PeriodQuery& query,
                                       const Alphabet& alphabet,
                                       std::vector<std::size_t>& unknown);

}  // namespace vecall

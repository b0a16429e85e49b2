#pragma once

// The words and patterns of time of each language, from when they are learned.

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
    PeriodReader kind = PeriodReader::kWord;
  };
  using Meanings = PeriodWords::Meanings;

  PeriodLanguage(const Alphabet& alphabet, const PeriodWords& given);

  std::vector<std::vector<Reader>> readers;  // by the vocabulary that opens them
  PeriodWords words;
  Pattern bounds, counted, joins, part, part_of;
  std::optional<Pattern> before, after;
};

// What all languages share.
struct PeriodCommon {
  PeriodCommon(const Alphabet& alphabet, const PeriodRules& given);

  PeriodRules rules;
  struct Hash : WordHash {
    // NOLINTNEXTLINE(readability-identifier-naming): the library's name
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

// Throws InvalidArgumentError for a number that no language may have.
void check_period_table(std::size_t number);

}  // namespace vecall

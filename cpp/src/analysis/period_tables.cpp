#include "analysis/period_tables.hpp"

#include "vecall/errors.hpp"

namespace vecall {

void check_period_table(std::size_t number) {
  if (number >= PeriodTables::kMost) {
    throw InvalidArgumentError("periods: too many languages");
  }
}

PeriodLanguage::PeriodLanguage(const Alphabet& alphabet, const PeriodWords& given)
    : words(given),
      bounds(alphabet, given.bounds),
      counted(alphabet, given.counted),
      joins(alphabet, given.joins),
      part(alphabet, given.part),
      part_of(alphabet, given.part_of) {
  for (const auto& some : given.readers) {
    auto& own = readers.emplace_back();
    for (const auto& [text, kind] : some) {
      if (kind > static_cast<unsigned>(PeriodReader::kPartOfDay)) {
        throw InvalidArgumentError("periods: a pattern has no reader");
      }
      own.push_back({Pattern(alphabet, text), static_cast<PeriodReader>(kind)});
    }
  }
  if (!given.before.empty()) before.emplace(alphabet, given.before);
  if (!given.after.empty()) after.emplace(alphabet, given.after);
}

PeriodCommon::PeriodCommon(const Alphabet& alphabet, const PeriodRules& given)
    : rules(given),
      opening(given.opening.begin(), given.opening.end()),
      only_in(given.only_in.begin(), given.only_in.end()),
      only_month(alphabet, given.only_month),
      year(alphabet, given.year),
      any_year(alphabet, given.any_year),
      relative(alphabet, given.relative),
      of_something(alphabet, given.of_something),
      ends(alphabet, given.ends),
      part_of(alphabet, given.part_of),
      article(alphabet, given.article) {
  if (given.languages.empty()) throw InvalidArgumentError("periods: no language");
  check_period_table(given.languages.size() - 1);
  for (const auto& text : given.dates) dates.emplace_back(alphabet, text);
}

PeriodTables::~PeriodTables() {
  delete common_.load();
  for (auto& language : languages_) delete language.load();
}

void PeriodTables::learn(std::unique_ptr<PeriodCommon> common) {
  PeriodCommon* none = nullptr;
  if (common_.compare_exchange_strong(none, common.get())) {
    static_cast<void>(common.release());
  }
}

void PeriodTables::learn(std::size_t number, std::unique_ptr<PeriodLanguage> language) {
  check_period_table(number);
  PeriodLanguage* none = nullptr;
  if (languages_[number].compare_exchange_strong(none, language.get())) {
    static_cast<void>(language.release());
  }
}

}  // namespace vecall

#pragma once

// The period that a query names, by the tables and in the way of
// `vecall.lexical.periods`. Times are microseconds since 1970 by the user's clock.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/period_tables.hpp"
#include "vecall/text_analyzer.hpp"

namespace vecall {

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

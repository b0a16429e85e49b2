#include "analysis/periods.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "analysis/calendar.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

using Range = TimeRange;
using Meanings = PeriodWords::Meanings;
using Tables = std::vector<const PeriodLanguage*>;

constexpr Micros kDay = kMicrosADay;
constexpr std::size_t kFew = 2;  // to
constexpr std::size_t kMany = 6;
constexpr std::size_t kMostSpans = 8;
constexpr std::size_t kMostBefore = 20;  // letters of a date before its first digit
constexpr std::size_t kShort = 4;        // places of patterns: "3.5.", "3/5/2024"
constexpr std::size_t kSlashed = 5;
constexpr std::size_t kEnglishTable = 0;
constexpr std::size_t kNumbers = ~std::size_t{0};  // the table of dates in numbers
constexpr int kYearsBefore = 5;

// A named time, and where it stands: `core` is what connectors stand before.
struct Span {
  std::size_t begin = 0;
  std::size_t core = 0;
  std::size_t end = 0;
  Range range;
  std::size_t table = kNumbers;  // its language
  OfYear of_year = {};           // if the text has no year
  bool is_day = false;
  bool is_weekday = false;
};

// With what stands around it.
struct Named {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::optional<Micros> from = {};
  std::optional<Micros> until = {};
  OfYear of_year = {};
};

int number_in(View digits) {
  int number = 0;
  for (const char16_t digit : digits) number = 10 * number + (digit - u'0');
  return number;
}

std::optional<int> meaning(const Meanings& of, View word) {
  const auto found = of.find(word);
  return found == of.end() ? std::nullopt : std::optional(found->second);
}

// The meaning of what a pattern of these words matched.
int known(const Meanings& of, View word) {
  const auto found = meaning(of, word);
  if (!found) throw InvalidArgumentError("periods: a pattern has an unknown word");
  return *found;
}

// What can be searched before a place: as Python's `pos` and `endpos`.
bool search_before(const Pattern& pattern, View text, std::size_t end, std::size_t most,
                   PatternMatch& match) {
  return pattern.search(text.substr(0, end), end - std::min(end, most), match);
}

template <class Found>
void for_each_match(const Pattern& pattern, View text, std::size_t from, Found found) {
  PatternMatch match;
  while (pattern.search(text, from, match)) {
    found(match);
    from = std::max(match.end, match.begin + 1);
  }
}

Span span_of(const PatternMatch& match, Range range, std::size_t table) {
  const std::size_t core =
      match.has(Group::kC) ? match.begin_of(Group::kC) : match.begin;
  return {match.begin, core, match.end, range, table};
}

// Reads the matches of a language's patterns.
class Readers {
 public:
  Readers(const PeriodLanguage& language, std::size_t number, View text, Micros now)
      : words_(&language.words),
        bounds_(&language.bounds),
        number_(number),
        text_(text),
        now_(now) {}

  [[nodiscard]] std::optional<Span> read(PeriodReader kind,
                                         const PatternMatch& match) const {
    switch (kind) {
      case PeriodReader::kWord:
        return word(match);
      case PeriodReader::kUnit:
        return unit(match);
      case PeriodReader::kAgo:
        return ago(match);
      case PeriodReader::kRecent:
        return span_of(match,
                       {time_ago(now_, unit_of(match), count(match).second), now_},
                       number_);
      case PeriodReader::kWeekday:
        return weekday(match);
      case PeriodReader::kMonth:
        return month(match);
      case PeriodReader::kSeason:
        return season(match);
      case PeriodReader::kPartOfDay: {
        const Micros midnight = midnight_of(now_) + (adjective(match) - 1) * kDay;
        const int part = known(words_->parts, match.of(text_, Group::kT));
        return span_of(match, part_of_day(midnight, part), number_);
      }
    }
    return std::nullopt;
  }

  // The least and the greatest number.
  static std::pair<int, int> count_in(const PeriodWords& words, View text,
                                      const PatternMatch& match) {
    if (!match.of(text, Group::kF).empty()) return {kFew, kMany};
    const View number = match.of(text, Group::kN);
    if (number.empty()) return {1, 1};
    const auto found = meaning(words.numbers, number);
    const int count = found ? *found + 1 : number_in(number);
    return {count, count};
  }

 private:
  [[nodiscard]] std::pair<int, int> count(const PatternMatch& match) const {
    return count_in(*words_, text_, match);
  }
  [[nodiscard]] int unit_of(const PatternMatch& match) const {
    return known(words_->units, match.of(text_, Group::kU));
  }
  [[nodiscard]] int adjective(const PatternMatch& match) const {
    const View before = match.of(text_, Group::kA);
    const View found = before.empty() ? match.of(text_, Group::kB) : before;
    return meaning(words_->adjectives, found).value_or(kNoAdjective);
  }

  [[nodiscard]] Span word(const PatternMatch& match) const {
    const auto found =
        words_->words.find(text_.substr(match.begin, match.end - match.begin));
    if (found == words_->words.end()) {
      throw InvalidArgumentError("periods: a pattern has an unknown word");
    }
    const auto [unit, steps] = found->second;
    Range range;
    if (unit >= kFirstPart && unit <= kLastPart) {
      range = part_of_day(midnight_of(now_) + steps * kDay, unit - kFirstPart);
    } else if (unit == kWeekday) {
      range = weekday_range(now_, steps, kLast);
    } else if (unit == kSeasonOfYear) {
      range = nearest_range(now_, {OfYear::kSeason, steps}, kLast);
    } else {
      range = unit_range(now_, unit, steps);
    }
    Span span = span_of(match, range, number_);
    span.is_day = unit == kDays;
    return span;
  }

  [[nodiscard]] std::optional<Span> unit(const PatternMatch& match) const {
    const int found = unit_of(match);
    if (found <= kDays) return std::nullopt;  // "the last day of our trip"
    return span_of(match, unit_range(now_, found, adjective(match) - 1), number_);
  }

  [[nodiscard]] Span ago(const PatternMatch& match) const {
    const int found = unit_of(match);
    const auto [least, most] = count(match);
    const Range range = {unit_range(now_, found, -most).first,
                         unit_range(now_, found, -least).second};
    Span span = span_of(match, range, number_);
    span.is_day = found == kDays;
    return span;
  }

  [[nodiscard]] Span weekday(const PatternMatch& match) const {
    const int day = known(words_->weekdays, match.of(text_, Group::kK));
    const View before = match.of(text_, Group::kA);
    Range range;
    if (!words_->weekday_adjectives.empty() && !before.empty()) {
      const int steps = known(words_->weekday_adjectives, before) - 1;
      range = day_range(unit_range(now_, kWeeks, steps).first + day * kDay);
    } else {
      range = weekday_range(now_, day, adjective(match));
    }
    Span span = span_of(match, range, number_);
    span.is_day = span.is_weekday = true;
    return span;
  }

  [[nodiscard]] std::optional<Span> month(const PatternMatch& match) const {
    const View name = match.of(text_, Group::kK);
    if (name == u"may" && match.of(text_, Group::kA) == u"this") return std::nullopt;
    // "31 June 2024" is no day.
    std::size_t at = match.begin_of(Group::kC);
    const std::size_t begin = at - std::min<std::size_t>(at, 2);
    while (at > begin && text_[at - 1] == u' ') --at;
    const auto is_digit = [this](std::size_t place) {
      return text_[place] >= u'0' && text_[place] <= u'9';
    };
    if (at > begin && is_digit(at - 1) &&
        (at - 1 == begin || text_[begin] == u' ' || is_digit(begin))) {
      return std::nullopt;
    }
    return named(match, {OfYear::kMonth, known(words_->months, name)});
  }

  [[nodiscard]] std::optional<Span> season(const PatternMatch& match) const {
    const OfYear of_year = {OfYear::kSeason,
                            known(words_->seasons, match.of(text_, Group::kK))};
    auto found = named(match, of_year);
    if (found && found->of_year && bounds_->matches_all(match.of(text_, Group::kP))) {
      return std::nullopt;  // "before winter": the next one
    }
    return found;
  }

  [[nodiscard]] std::optional<Span> named(const PatternMatch& match,
                                          const OfYear& of_year) const {
    const int which = adjective(match);
    if (const View year = match.of(text_, Group::kY); !year.empty()) {
      return span_of(match, of_year.of(number_in(year)), number_);
    }
    const View name = match.of(text_, Group::kK);
    const auto& alone = words_->alone;
    const bool is_marked = !match.of(text_, Group::kP).empty() ||
                           !match.of(text_, Group::kX).empty() ||
                           std::find(alone.begin(), alone.end(), name) != alone.end();
    if (which == kNoAdjective && !is_marked) return std::nullopt;
    Span span = span_of(match, nearest_range(now_, of_year, which), number_);
    if (which == kNoAdjective) span.of_year = of_year;
    return span;
  }

  const PeriodWords* words_;
  const Pattern* bounds_;
  std::size_t number_;
  View text_;
  Micros now_;
};

// Finds the period of one query.
class Finder {
 public:
  Finder(const PeriodTables& tables, const PeriodQuery& query)
      : tables_(&tables),
        common_(tables.common()),
        text_(query.folded),
        language_(query.language),
        now_(query.now) {}

  std::optional<NamedPeriod> find(const std::vector<PeriodRules::Opened>& opened) {
    const std::vector<Span> spans = named_times(opened);
    Tables own;
    for (const auto& [table, place] : opened) {
      const PeriodLanguage* const language = tables_->language(table);
      if (own.empty() || own.back() != language) own.push_back(language);
    }
    if (std::all_of(spans.begin(), spans.end(),
                    [](const Span& span) { return span.table == kNumbers; })) {
      own.push_back(tables_->language(kEnglishTable));
    }
    const auto& languages = common_->rules.languages;
    const auto same = std::find(languages.begin(), languages.end(), language_);
    if (same != languages.end()) {
      own.push_back(
          tables_->language(static_cast<std::size_t>(same - languages.begin())));
    }
    std::vector<Named> named = with_connectors(spans, own);
    if (text_.find(u'?') != View::npos) {
      std::erase_if(named, [this](const Named& each) { return !is_asked(each.end); });
    }
    if (named.empty()) return std::nullopt;
    // What is to come holds no memories: another period is meant.
    const auto begun = std::find_if(
        named.begin(), named.end(),
        [this](const Named& each) { return !each.from || *each.from <= now_; });
    return period_of(begun == named.end() ? named.front() : *begun);
  }

 private:
  [[nodiscard]] NamedPeriod period_of(const Named& named) const {
    NamedPeriod found = {{named.from, named.until}, {}, {}};
    if (named.of_year && named.from) {
      const int year = date_of(*named.from).year;
      for (int before = 1; before <= kYearsBefore; ++before) {
        try {
          const Range range = named.of_year.of(year - before);
          found.earlier.push_back({range.first, range.second});
        } catch (const NoDateError&) {
          continue;  // 29 February
        }
      }
    }
    std::size_t begin = named.begin;
    PatternMatch article;
    if (search_before(common_->article, text_, begin, 8, article))
      begin = article.begin;
    found.rest = text_.substr(0, begin);
    found.rest += u' ';
    found.rest += text_.substr(named.end);
    return found;
  }

  // The times that the text names, in order; of overlapping ones the longest.
  [[nodiscard]] std::vector<Span> named_times(
      const std::vector<PeriodRules::Opened>& opened) const {
    std::vector<Span> spans;
    for (const auto& [table, place] : opened) {
      const PeriodLanguage& language = *tables_->language(table);
      const Readers readers(language, table, text_, now_);
      for (const auto& reader : language.readers.at(place)) {
        for_each_match(reader.pattern, text_, 0, [&](const PatternMatch& match) {
          const auto only =
              common_->only_in.find(text_.substr(match.begin, match.end - match.begin));
          if (only != common_->only_in.end() && only->second != language_) return;
          const auto span = readers.read(reader.kind, match);
          if (span && !is_of_something(*span)) spans.push_back(*span);
        });
      }
    }
    append_numbers(spans);
    std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      const std::size_t size_of_a = a.end - a.core;
      const std::size_t size_of_b = b.end - b.core;
      return size_of_a != size_of_b ? size_of_a > size_of_b : a.begin < b.begin;
    });
    std::vector<Span> taken;
    for (const Span& span : spans) {
      if (std::all_of(taken.begin(), taken.end(), [&span](const Span& one) {
            return span.end <= one.core || one.end <= span.core;
          })) {
        taken.push_back(span);
      }
      if (taken.size() == kMostSpans) break;
    }
    std::stable_sort(taken.begin(), taken.end(),
                     [](const Span& a, const Span& b) { return a.core < b.core; });
    return taken;
  }

  // Whether an English time is not relative to now: "the last week of it".
  [[nodiscard]] bool is_of_something(const Span& span) const {
    if (span.table != kEnglishTable || !common_->relative.matches_all(text_.substr(
                                           span.begin, span.end - span.begin))) {
      return false;
    }
    PatternMatch match;
    return search_before(common_->of_something, text_, span.begin, 14, match);
  }

  // Dates in full and in numbers.
  void append_numbers(std::vector<Span>& spans) const {
    const std::size_t first = text_.find_first_of(u"0123456789");
    if (first == View::npos) return;
    // No match begins further before the first digit, or the first year.
    const bool is_english = language_ == common_->rules.languages[kEnglishTable];
    for (std::size_t place = 0; place < common_->dates.size(); ++place) {
      if (place == kShort && is_english) continue;
      const std::size_t from =
          place == 1 ? first - std::min(first, kMostBefore) : first;
      for_each_match(
          common_->dates[place], text_, from, [&](const PatternMatch& match) {
            int day = number_in(match.of(text_, Group::kD));
            const View name = match.of(text_, Group::kM);
            int month =
                place < 2 ? known(common_->rules.months, name) + 1 : number_in(name);
            if (place == kSlashed && (month > 12 || (is_english && day <= 12))) {
              std::swap(day, month);
            }
            append_date(match, {OfYear::kDayOfMonth, month, day}, spans);
          });
    }
    for_each_match(common_->only_month, text_, first, [&](const PatternMatch& match) {
      const int year = number_in(match.of(text_, Group::kY));
      const int month = number_in(match.of(text_, Group::kM));
      spans.push_back(span_of(match, month_range(year * 12 + month - 1), kNumbers));
    });
    PatternMatch year;
    if (!common_->any_year.search(text_, first, year)) return;
    const std::size_t from = year.begin - std::min(year.begin, kMostBefore);
    for_each_match(common_->year, text_, from, [&](const PatternMatch& match) {
      const Group group = match.has(Group::kC) ? Group::kC : Group::kD;
      const int of = number_in(match.of(text_, group));
      spans.push_back({match.begin,
                       match.begin_of(group),
                       match.end,
                       {day_at(of, 1, 1), day_at(of + 1, 1, 1)}});
    });
  }

  // A day, or the days to another.
  void append_date(const PatternMatch& match, const OfYear& of_year,
                   std::vector<Span>& spans) const {
    const View year = match.of(text_, Group::kY);
    const View first = match.of(text_, Group::kD0);
    const View last = first.empty() ? match.of(text_, Group::kD1) : first;
    try {
      const auto found = year.empty() ? last_day(now_, of_year)
                                      : std::optional(of_year.of(number_in(year)));
      if (!found) return;
      Range range = *found;
      if (!last.empty()) {
        const Date date = date_of(range.first);
        const Range end = day_range(day_at(date.year, date.month, number_in(last)));
        range = {std::min(range.first, end.first), std::max(range.second, end.second)};
      }
      Span span = span_of(match, range, kNumbers);
      if (year.empty()) span.of_year = of_year;
      span.is_day = last.empty();
      spans.push_back(span);
    } catch (const NoDateError&) {
      return;
    }
  }

  // The spans with their connectors: since, before, between, in the evening.
  [[nodiscard]] std::vector<Named> with_connectors(const std::vector<Span>& spans,
                                                   const Tables& numbers) const {
    std::vector<Named> named;
    std::size_t index = 0;
    while (index < spans.size()) {
      Tables tables;
      for (std::size_t i = index; i < std::min(index + 2, spans.size()); ++i) {
        if (spans[i].table != kNumbers) {
          tables.push_back(tables_->language(spans[i].table));
        }
      }
      if (tables.empty()) tables = numbers;
      Span span = with_part(spans[index++], tables);
      bool is_joined = false;
      for (; index < spans.size(); ++index) {
        Span other = spans[index];
        // Overlapping spans have no gap; Python slices to "".
        View gap;
        if (other.core > span.end) gap = text_.substr(span.end, other.core - span.end);
        while (!gap.empty() && gap.front() == u' ') gap.remove_prefix(1);
        while (!gap.empty() && gap.back() == u' ') gap.remove_suffix(1);
        if (!common_->part_of.matches_all(gap)) {  // "the last week of May"
          if (std::none_of(tables.begin(), tables.end(), [gap](const auto* each) {
                return each->joins.matches_all(gap);
              })) {
            break;
          }
          other = with_part(other, tables);
          other.range = joined_range(span, other);
          is_joined = true;
        }
        other.begin = span.begin;
        other.core = span.core;
        span = other;
      }
      if (is_joined) {
        named.push_back({span.begin, span.end, span.range.first, span.range.second});
      } else {
        named.push_back(with_connector(span, tables));
      }
    }
    return named;
  }

  [[nodiscard]] Span with_part(Span span, const Tables& tables) const {
    if (!span.is_day) return span;
    for (const PeriodLanguage* const table : tables) {
      PatternMatch match;
      if (!table->part.match(text_, span.end, match) &&
          !search_before(table->part_of, text_, span.core, 40, match)) {
        continue;
      }
      const int part = known(table->words.parts, match.of(text_, Group::kT));
      span.range = part_of_day(span.range.first, part);
      span.begin = std::min(span.begin, match.begin);
      span.end = std::max(span.end, match.end);
      return span;
    }
    return span;
  }

  static Range joined_range(const Span& one, const Span& other) {
    Range range = one.range;
    const int year = date_of(other.range.first).year;
    if (one.of_year && !other.of_year) range = one.of_year.of(year);
    if (range.first > other.range.first) {
      if (one.of_year) {
        range = one.of_year.of(year - 1);
      } else if (one.is_weekday && other.is_weekday) {
        range.first -= 7 * kDay;
        range.second -= 7 * kDay;
      }
    }
    return {std::min(range.first, other.range.first),
            std::max(range.second, other.range.second)};
  }

  [[nodiscard]] Named with_connector(const Span& span, const Tables& tables) const {
    auto [from, until] = span.range;
    for (const PeriodLanguage* const table : tables) {
      PatternMatch before;
      PatternMatch after;
      const bool is_before =
          table->before && search_before(*table->before, text_, span.core, 30, before);
      const bool is_after = table->after && table->after->match(text_, span.end, after);
      if (!is_before && !is_after) continue;
      const PatternMatch& match = is_before ? before : after;
      const std::size_t begin =
          is_before ? std::min(span.begin, before.begin) : span.begin;
      const std::size_t end = is_after ? after.end : span.end;
      const bool is_limit = match.has(Group::kBefore) || match.has(Group::kAfter);
      PatternMatch counted;
      if (is_limit && search_before(table->counted, text_, begin, 30, counted)) {
        const View name = counted.of(text_, Group::kU);
        int unit = name.empty() ? kWeeks : known(table->words.units, name);
        if (unit == kWeekends) unit = kWeeks;
        const int count = Readers::count_in(table->words, text_, counted).second;
        if (match.has(Group::kBefore)) {
          from = time_ago(from, unit, count);
        } else {
          until = time_ago(until, unit, -count);
        }
        return {counted.begin, end, from, until};
      }
      if (match.has(Group::kBefore)) return {begin, end, std::nullopt, from};
      if (match.has(Group::kUntil)) return {begin, end, std::nullopt, until};
      return {begin, end, match.has(Group::kAfter) ? until : from, std::nullopt};
    }
    return {span.begin, span.end, from, until, span.is_day ? span.of_year : OfYear()};
  }

  // Whether a question goes on at a place: "I ran yesterday. How long is a marathon?"
  [[nodiscard]] bool is_asked(std::size_t end) const {
    PatternMatch match;
    return !common_->ends.search(text_, end, match) || text_[match.begin] == u'?';
  }

  const PeriodTables* tables_;
  const PeriodCommon* common_;
  View text_;
  std::size_t language_;
  Micros now_;
};

// The readers whose words of time a text holds, in order.
std::vector<PeriodRules::Opened> opened_readers(const PeriodCommon& common,
                                                const PeriodQuery& query,
                                                const Alphabet& alphabet) {
  std::vector<PeriodRules::Opened> opened;
  const auto open = [&opened](const std::vector<PeriodRules::Opened>& more) {
    opened.insert(opened.end(), more.begin(), more.end());
  };
  for (const View word : query.words) {
    if (const auto found = common.opening.find(word); found != common.opening.end()) {
      open(found->second);
    }
    if (word == u"an") open(common.rules.of_an);
  }
  // "week-end" and "dec'22" are words, but two for the patterns of a language.
  const std::size_t count = opened.size();
  const auto is_own = [&](std::size_t table) {
    if (count == 0) return table == kEnglishTable;
    return std::any_of(opened.begin(),
                       opened.begin() + static_cast<std::ptrdiff_t>(count),
                       [table](const auto& each) { return each.first == table; });
  };
  for_each_run(alphabet, query.folded, [&](View piece) {
    const auto found = common.opening.find(piece);
    if (found == common.opening.end()) return;
    std::vector<PeriodRules::Opened> more;
    std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(more),
                 [&](const auto& each) { return is_own(each.first); });
    open(more);
  });
  std::sort(opened.begin(), opened.end());
  opened.erase(std::unique(opened.begin(), opened.end()), opened.end());
  return opened;
}

}  // namespace

std::optional<NamedPeriod> find_period(const PeriodTables& tables,
                                       const PeriodQuery& query,
                                       const Alphabet& alphabet,
                                       std::vector<std::size_t>& unknown) {
  unknown.clear();
  const PeriodCommon& common = *tables.common();
  const auto opened = opened_readers(common, query, alphabet);
  const auto need = [&](std::size_t table) {
    check_period_table(table);
    if (tables.language(table) == nullptr &&
        std::find(unknown.begin(), unknown.end(), table) == unknown.end()) {
      unknown.push_back(table);
    }
  };
  need(kEnglishTable);
  for (const auto& [table, place] : opened) need(table);
  const auto& languages = common.rules.languages;
  const auto same = std::find(languages.begin(), languages.end(), query.language);
  if (same != languages.end()) {
    need(static_cast<std::size_t>(same - languages.begin()));
  }
  if (!unknown.empty()) return std::nullopt;
  try {
    return Finder(tables, query).find(opened);
  } catch (const NoDateError&) {
    return std::nullopt;
  }
}

}  // namespace vecall

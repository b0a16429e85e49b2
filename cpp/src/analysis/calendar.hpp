#pragma once

// Days, months and years of the calendar, as Python's `datetime` counts them, and what
// words such as "last month" mean. Times are microseconds since 1970 by the user's
// clock.

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace vecall {

using Micros = std::int64_t;
using TimeRange = std::pair<Micros, Micros>;

inline constexpr Micros kMicrosADay = Micros{24} * 60 * 60 * 1'000'000;

enum Unit : int {
  kMinutes,
  kHours,
  kDays,
  kWeeks,
  kWeekends,
  kMonths,
  kYears,
  kFirstPart,
  kLastPart = kFirstPart + 3,
  kWeekday,
  kSeasonOfYear,
};
enum Adjective : int { kLast, kThis, kNext, kNoAdjective };

// A day that no calendar has, or a time for which no year is found.
class NoDateError : public std::exception {};

struct Date {
  int year, month, day;  // from 1
};

Micros midnight_of(Micros at);
Date date_of(Micros at);
// Throws NoDateError.
Micros day_at(int year, int month, int day);
TimeRange day_range(Micros at, int count = 1);
// `months` counts from the year 0.
TimeRange month_range(int months, int count = 1);
// The unit that lies so many units from now.
TimeRange unit_range(Micros now, int unit, int steps);
// The time so many units ago, to the day for days and more.
Micros time_ago(Micros now, int unit, int count);

// A month, a season or a day of each year.
struct OfYear {
  enum Kind : std::uint8_t { kNone, kMonth, kSeason, kDayOfMonth };

  Kind kind = kNone;
  int month = 0;  // from 0, of a day from 1; or the season
  int day = 0;

  explicit operator bool() const { return kind != kNone; }
  [[nodiscard]] TimeRange of(int year) const;
};

// That of the year that an adjective means.
TimeRange nearest_range(Micros now, const OfYear& of_year, int adjective);
TimeRange weekday_range(Micros now, int day, int adjective);
// The last day that has begun, or one that is near.
std::optional<TimeRange> last_day(Micros now, const OfYear& of_year);
TimeRange part_of_day(Micros midnight, int part);

}  // namespace vecall

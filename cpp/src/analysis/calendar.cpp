#include "analysis/calendar.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace vecall {

namespace {

using Range = TimeRange;

constexpr Micros kDay = kMicrosADay;
constexpr Micros kHour = kDay / 24;
constexpr Micros kMinute = kHour / 60;
constexpr int kSoon = 31;  // a day without a year may be so many days ahead

int weekday_of(Micros at) {  // 0 is Monday
  const auto day = static_cast<int>(midnight_of(at) / kDay);
  return ((day + 3) % 7 + 7) % 7;
}

int months_of(Micros at) {
  const Date date = date_of(at);
  return date.year * 12 + date.month - 1;
}

}  // namespace

Micros midnight_of(Micros at) {
  const Micros day = at / kDay - (at % kDay < 0 ? 1 : 0);
  return day * kDay;
}

Date date_of(Micros at) {
  const std::chrono::year_month_day found{std::chrono::sys_days{
      std::chrono::days{static_cast<int>(midnight_of(at) / kDay)}}};
  return {static_cast<int>(found.year()),
          static_cast<int>(static_cast<unsigned>(found.month())),
          static_cast<int>(static_cast<unsigned>(found.day()))};
}

Micros day_at(int year, int month, int day) {
  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31) {
    throw NoDateError();
  }
  const std::chrono::year_month_day found{
      std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
      std::chrono::day{static_cast<unsigned>(day)}};
  if (!found.ok()) throw NoDateError();
  return Micros{std::chrono::sys_days{found}.time_since_epoch().count()} * kDay;
}

Range day_range(Micros at, int count) {
  const Micros begin = midnight_of(at);
  return {begin, begin + count * kDay};
}

Range month_range(int months, int count) {
  const int end = months + count;
  return {day_at(months / 12, months % 12 + 1, 1), day_at(end / 12, end % 12 + 1, 1)};
}

Range unit_range(Micros now, int unit, int steps) {
  switch (unit) {
    case kYears: {
      const int year = date_of(now).year + steps;
      return {day_at(year, 1, 1), day_at(year + 1, 1, 1)};
    }
    case kMonths:
      return month_range(months_of(now) + steps);
    case kDays:
      return day_range(now + steps * kDay);
    case kWeeks:
    case kWeekends: {
      const Micros monday =
          midnight_of(now) - weekday_of(now) * kDay + steps * (7 * kDay);
      return unit == kWeeks ? day_range(monday, 7) : day_range(monday + 5 * kDay, 2);
    }
    default: {
      const Micros step = unit == kHours ? kHour : kMinute;
      return {now + (steps - 1) * step, now + (steps + 1) * step};
    }
  }
}

Micros time_ago(Micros now, int unit, int count) {
  if (unit == kHours || unit == kMinutes) {
    return now - count * (unit == kHours ? kHour : kMinute);
  }
  if (unit == kYears || unit == kMonths) {
    if (unit == kYears) count *= 12;
    const auto [begin, end] = month_range(months_of(now) - count);
    const auto days = static_cast<int>((end - begin) / kDay);
    return begin + std::min(date_of(now).day - 1, days - 1) * kDay;
  }
  return midnight_of(now) - count * (unit == kDays ? kDay : 7 * kDay);
}

Range OfYear::of(int year) const {
  constexpr std::array kFirst = {11, 2, 5, 8};
  if (kind == kMonth) return month_range(year * 12 + month);
  if (kind == kSeason) {
    return month_range(year * 12 + kFirst.at(static_cast<std::size_t>(month)), 3);
  }
  return day_range(day_at(year, month, day));
}

Range nearest_range(Micros now, const OfYear& of_year, int adjective) {
  const int year = date_of(now).year;
  if (adjective == kThis) return of_year.of(year);
  if (adjective == kNext) {
    for (int each = year - 2; each < year + 3; ++each) {
      const Range range = of_year.of(each);
      if (range.first > now) return range;
    }
    throw NoDateError();
  }
  for (int each = year + 2; each > year - 3; --each) {
    const Range range = of_year.of(each);
    if ((adjective == kLast ? range.second : range.first) <= now) return range;
  }
  throw NoDateError();
}

Range weekday_range(Micros now, int day, int adjective) {
  const auto after = [](int days) { return (days % 7 + 7) % 7; };
  int ahead = day - weekday_of(now);
  if (adjective == kNext) {
    ahead = after(ahead - 1) + 1;
  } else if (adjective != kThis) {
    ahead = after(ahead) - 7;
  }
  return day_range(now + ahead * kDay);
}

std::optional<Range> last_day(Micros now, const OfYear& of_year) {
  const int last = date_of(now).year + 1;
  for (int year = last; year > last - 10; --year) {
    try {
      const Range found = of_year.of(year);
      if (found.first <= now + kSoon * kDay) return found;
    } catch (const NoDateError&) {
      continue;  // 29 February
    }
  }
  return std::nullopt;
}

Range part_of_day(Micros midnight, int part) {
  constexpr std::array<std::pair<int, int>, 4> kHoursOf = {
      {{5, 12}, {12, 18}, {17, 24}, {18, 30}}};
  const auto [begin, end] = kHoursOf.at(static_cast<std::size_t>(part));
  return {midnight + begin * kHour, midnight + end * kHour};
}

}  // namespace vecall

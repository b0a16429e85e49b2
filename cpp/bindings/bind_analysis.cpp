#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bindings.hpp"
#include "casters.hpp"
#include "gil_release.hpp"
#include "instances.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/text_analyzer.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

constexpr std::size_t kLong = 20'000;  // letters: about half a millisecond of work

template <class T>
void read(const py::dict& given, const char* name, T& into) {
  into = given[name].cast<T>();
}

// The tables of a TextAnalyzer, by the names of the members of TextRules.
struct RulesArg {
  TextRules rules;

  static constexpr auto kHint = const_name("dict[str, typing.Any]");
  void load(py::handle source) {
    if (!PyDict_Check(source.ptr())) refuse();
    const auto given = py::reinterpret_borrow<py::dict>(source);
    try {
      const auto letters = given["letters"].cast<std::map<char16_t, std::u16string>>();
      rules.letters.assign(letters.begin(), letters.end());
      read(given, "word", rules.word);
      read(given, "alphabetic", rules.alphabetic);
      read(given, "digits", rules.digits);
      read(given, "closing", rules.closing);
      read(given, "apostrophes", rules.apostrophes);
      read(given, "vowels", rules.vowels);
      read(given, "turkish", rules.turkish);
      read(given, "romanian", rules.romanian);
      read(given, "stop_words", rules.stop_words);
      read(given, "german", rules.german);
      read(given, "turk", rules.turk);
      read(given, "telling", rules.telling);
      read(given, "time_words", rules.time_words);
      read(given, "opening", rules.opening);
      read(given, "elided", rules.elided);
      read(given, "units", rules.units);
      read(given, "ordinals", rules.ordinals);
      read(given, "endings", rules.endings);
      read(given, "months", rules.months);
      read(given, "asks_time", rules.asks_time);
      read(given, "user", rules.user);
      read(given, "question", rules.question);
      read(given, "time", rules.time);
      read(given, "dated", rules.dated);
    } catch (const py::cast_error&) {
      refuse();
    } catch (py::error_already_set&) {
      refuse();
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("rules: expected a dict of the tables of the analysis");
  }
};

// A view of a str; null for what is none.
std::optional<TextAnalyzer::Text> text_in(py::handle text) {
  if (!PyUnicode_Check(text.ptr())) return std::nullopt;
#if PY_VERSION_HEX < 0x030C0000
  if (PyUnicode_READY(text.ptr()) != 0) throw py::error_already_set();
#endif
  return TextAnalyzer::Text{PyUnicode_DATA(text.ptr()),
                            static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())),
                            static_cast<std::size_t>(PyUnicode_KIND(text.ptr()))};
}

// A query, valid for the call.
struct QueryArg {
  TextAnalyzer::Text text;

  static constexpr auto kHint = const_name("str");
  void load(py::handle source) {
    const auto found = text_in(source);
    if (!found) throw InvalidTypeError("query: expected a str");
    text = *found;
  }
};

// Memories as (text, author, time), valid for the call.
struct MemoriesArg {
  std::vector<py::tuple> keep;  // another thread may change the list
  std::vector<TextAnalyzer::Memory> memories;
  std::size_t size = 0;  // letters

  static constexpr auto kHint =
      const_name("list[tuple[str, str | None, float | None]]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) refuse();
    for (const py::handle item : py::reinterpret_borrow<py::list>(source)) {
      if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 3) refuse();
      const auto& memory = keep.emplace_back(py::reinterpret_borrow<py::tuple>(item));
      TextAnalyzer::Memory& read = memories.emplace_back();
      read.text = text_of(memory[0]);
      if (!memory[1].is_none()) read.author = text_of(memory[1]);
      if (!memory[2].is_none()) read.time = time_of(memory[2]);
      size += read.text.size + read.author.size;
    }
  }

 private:
  static TextAnalyzer::Text text_of(py::handle text) {
    const auto found = text_in(text);
    if (!found) refuse();
    return *found;
  }
  // What is no finite number is left to the Python analysis.
  static double time_of(py::handle time) {
    if (!PyFloat_Check(time.ptr()) && !PyLong_Check(time.ptr())) refuse();
    const double seconds = PyFloat_AsDouble(time.ptr());
    if (PyErr_Occurred() == nullptr) return seconds;
    PyErr_Clear();
    return std::numeric_limits<double>::infinity();
  }
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("memories: expected a list of (text, author, time)");
  }
};

using TermArrays = py::typing::Tuple<Array<std::uint64_t>, Array<std::int64_t>>;
using Stems = py::typing::Callable<py::typing::List<py::int_>(
    py::int_, py::typing::List<py::str>)>;
using Reference = py::typing::Callable<py::typing::List<py::int_>(
    py::str, std::optional<py::str>, std::optional<py::float_>)>;

// Asks for the stems of the words that were unknown.
void learn(TextAnalyzer::Batch& batch, const Stems& stems) {
  for (std::size_t language = 0; language <= TextAnalyzer::kAuthors; ++language) {
    const std::vector<std::u16string> words = batch.unknown(language);
    if (words.empty()) continue;
    py::list asked;
    for (const std::u16string& word : words) {
      asked.append(py::reinterpret_steal<py::str>(PyUnicode_FromKindAndData(
          PyUnicode_2BYTE_KIND, word.data(), static_cast<py::ssize_t>(word.size()))));
    }
    batch.learn(language, stems(language, asked).cast<std::vector<std::uint64_t>>());
  }
}

// The terms of each memory: a range of all that were found, in any order.
class FoundTerms {
 public:
  explicit FoundTerms(const MemoriesArg& given) : given_(given) {
    ranges_.resize(given.memories.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i) open_.push_back(i);
  }

  void find(TextAnalyzer& analyzer, const Stems& stems, const Reference& reference) {
    TextAnalyzer::Batch batch(analyzer);
    while (!open_.empty()) {
      {
        std::optional<GilRelease> release;
        if (given_.size > kLong) release.emplace();
        analyse(batch);
      }
      for (const std::size_t i : foreign_) {
        const std::size_t begin = terms_.size();
        const py::tuple& memory = given_.keep[i];
        for (const py::handle term : reference(memory[0], memory[1], memory[2])) {
          terms_.push_back(term.cast<std::uint64_t>());
        }
        ranges_[i] = {begin, terms_.size()};
      }
      foreign_.clear();
      learn(batch, stems);
    }
  }

  [[nodiscard]] TermArrays arrays() const {
    Array<std::uint64_t> terms(static_cast<py::ssize_t>(terms_.size()));
    Array<std::int64_t> offsets(static_cast<py::ssize_t>(ranges_.size() + 1));
    std::uint64_t* term = terms.mutable_data();
    std::int64_t* offset = offsets.mutable_data();
    *offset = 0;
    for (const auto& [begin, end] : ranges_) {
      term = std::copy(terms_.begin() + static_cast<std::ptrdiff_t>(begin),
                       terms_.begin() + static_cast<std::ptrdiff_t>(end), term);
      *++offset = term - terms.data();
    }
    return py::make_tuple(std::move(terms), std::move(offsets));
  }

 private:
  void analyse(TextAnalyzer::Batch& batch) {
    std::vector<std::size_t> left;
    for (const std::size_t i : open_) {
      const std::size_t begin = terms_.size();
      switch (batch.analyse(given_.memories[i], terms_)) {
        case TextAnalyzer::Outcome::kDone:
          ranges_[i] = {begin, terms_.size()};
          break;
        case TextAnalyzer::Outcome::kUnknownWords:
          left.push_back(i);
          break;
        default:
          foreign_.push_back(i);
          break;
      }
    }
    open_ = std::move(left);
  }

  const MemoriesArg& given_;
  std::vector<std::uint64_t> terms_;
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;
  std::vector<std::size_t> open_;
  std::vector<std::size_t> foreign_;
};

TermArrays memory_terms(TextAnalyzer& analyzer, const MemoriesArg& memories,
                        const Stems& stems, const Reference& reference) {
  FoundTerms found(memories);
  found.find(analyzer, stems, reference);
  return found.arrays();
}

using TermLists =
    py::typing::Tuple<py::typing::List<std::uint64_t>, py::typing::List<std::uint64_t>,
                      py::typing::List<std::uint64_t>, py::bool_,
                      py::typing::Optional<py::typing::List<py::typing::Tuple<
                          std::optional<std::int64_t>, std::optional<std::int64_t>>>>>;
using TimeTables = py::typing::Callable<py::typing::Dict<py::str, py::object>(
    std::optional<py::int_>)>;
using LocalTime = py::typing::Callable<std::optional<py::int_>(py::float_, py::object)>;

// When a query is asked.
struct AskedArg {
  double seconds = 0.0;

  static constexpr auto kHint = const_name("float");
  void load(py::handle source) {
    seconds = PyFloat_AsDouble(source.ptr());
    if (PyErr_Occurred() == nullptr) return;
    PyErr_Clear();
    throw InvalidTypeError("now: expected a float");
  }
};
struct ZoneArg {
  py::object zone;

  static constexpr auto kHint = const_name("typing.Any");
  void load(py::handle source) { zone = py::reinterpret_borrow<py::object>(source); }
};

// Microseconds by the user's clock; in UTC, as Python's datetime rounds them.
std::optional<std::int64_t> local_time(double now, const py::object& zone,
                                       const LocalTime& local) {
  constexpr double kLatest = 4e9;
  if (!zone.is_none() || !(now >= 0.0 && now <= kLatest)) {
    return local(now, zone).cast<std::optional<std::int64_t>>();
  }
  constexpr std::int64_t kMicros = 1'000'000;
  double seconds = 0;
  const double rest = std::modf(now, &seconds);
  return static_cast<std::int64_t>(seconds) * kMicros +
         static_cast<std::int64_t>(std::nearbyint(rest * kMicros));
}

void read_words(const py::dict& given, PeriodWords& into) {
  read(given, "readers", into.readers);
  read(given, "words", into.words);
  read(given, "units", into.units);
  read(given, "numbers", into.numbers);
  read(given, "adjectives", into.adjectives);
  read(given, "weekday_adjectives", into.weekday_adjectives);
  read(given, "weekdays", into.weekdays);
  read(given, "months", into.months);
  read(given, "seasons", into.seasons);
  read(given, "parts", into.parts);
  read(given, "alone", into.alone);
  read(given, "bounds", into.bounds);
  read(given, "counted", into.counted);
  read(given, "before", into.before);
  read(given, "after", into.after);
  read(given, "joins", into.joins);
  read(given, "part", into.part);
  read(given, "part_of", into.part_of);
}

void read_common(const py::dict& given, PeriodRules& into) {
  read(given, "opening", into.opening);
  read(given, "of_an", into.of_an);
  read(given, "languages", into.languages);
  read(given, "only_in", into.only_in);
  read(given, "months", into.months);
  read(given, "dates", into.dates);
  read(given, "only_month", into.only_month);
  read(given, "year", into.year);
  read(given, "any_year", into.any_year);
  read(given, "relative", into.relative);
  read(given, "of_something", into.of_something);
  read(given, "ends", into.ends);
  read(given, "part_of", into.part_of);
  read(given, "article", into.article);
}

// Asks for the tables of named times that are unknown.
void learn_periods(TextAnalyzer& analyzer, const TextAnalyzer::Batch& batch,
                   const TimeTables& tables) {
  const std::vector<std::size_t> unknown = batch.unknown_periods();
  if (unknown.empty()) {
    PeriodRules rules;
    read_common(tables(py::none()).cast<py::dict>(), rules);
    analyzer.learn_periods(rules);
  }
  for (const std::size_t language : unknown) {
    PeriodWords words;
    read_words(tables(language).cast<py::dict>(), words);
    analyzer.learn_periods(language, words);
  }
}

// The period, and those that it may mean as well.
py::object periods_of(const TextAnalyzer::QueryTerms& found) {
  if (!found.period) return py::none();
  py::list periods;
  periods.append(py::make_tuple(found.period->from, found.period->until));
  for (const TextAnalyzer::Period& each : found.earlier) {
    periods.append(py::make_tuple(each.from, each.until));
  }
  return periods;
}

std::optional<TermLists> query_terms(TextAnalyzer& analyzer, const QueryArg& query,
                                     const Stems& stems, bool by_period,
                                     const TimeTables& tables, const AskedArg& now,
                                     const ZoneArg& zone, const LocalTime& local) {
  TextAnalyzer::Batch batch(analyzer);
  TextAnalyzer::QueryTerms found;
  TextAnalyzer::Query asked = {.text = query.text, .by_period = by_period};
  while (true) {
    switch (batch.analyse(asked, found)) {
      case TextAnalyzer::Outcome::kDone:
        return py::make_tuple(list_of(found.terms, std::identity()),
                              list_of(found.optional, std::identity()),
                              list_of(found.authors, std::identity()), found.asks_time,
                              periods_of(found));
      case TextAnalyzer::Outcome::kUnknownWords:
        learn(batch, stems);
        break;
      case TextAnalyzer::Outcome::kUnknownTimes:
        learn_periods(analyzer, batch, tables);
        break;
      case TextAnalyzer::Outcome::kNeedsTime:
        asked.now = local_time(now.seconds, zone.zone, local);
        if (!asked.now) return std::nullopt;
        break;
      case TextAnalyzer::Outcome::kForeign:
        return std::nullopt;
    }
  }
}

}  // namespace

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::TextAnalyzer> : MadeInstanceCaster<vecall::TextAnalyzer> {};

}  // namespace pybind11::detail

namespace vecall::bindings {

void bind_analysis(py::module_& module) {
  py::class_<TextAnalyzer> bound(
      module, "TextAnalyzer",
      R"(Finds the terms of memories in Latin letters, as `vecall.lexical` does.

Safe to share between threads. It remembers the terms of up to 100,000 words.

Args:
    rules: The tables of the analysis, by the names of the members of `TextRules`
        (cpp/include/vecall/text_analyzer.hpp).

Raises:
    InvalidArgumentError: The tables contradict themselves.
    InvalidTypeError: A table is missing or of another type.)");
  def_strict_init(bound, py::init([](const RulesArg& rules) {
                    return std::make_unique<TextAnalyzer>(rules.rules);
                  }),
                  "rules"_a);
  def_strict(bound, "memory_terms", &memory_terms, "memories"_a, "stems"_a,
             "reference"_a,
             R"(Finds the terms of memories.

Args:
    memories: Text, author and time in seconds since 1970 of each.
    stems: Returns the terms of new words, 0 for none. Its first argument is the number
        of a language in `stop_words`, or 7 for the marks of names.
    reference: Returns the terms of a memory that the tables do not cover.

Returns:
    The terms, uint64; and int64 (len(memories) + 1), where those of each begin and end.

Raises:
    InvalidTypeError: No list of (text, author, time).)");
  def_strict(bound, "query_terms", &query_terms, "query"_a, "stems"_a, "by_period"_a,
             "tables"_a, "now"_a, "zone"_a, "local"_a,
             R"(Finds the terms of a query.

Args:
    query: The query.
    stems: As for `memory_terms`.
    by_period: Whether the query may name a period; else its words are terms.
    tables: Returns the words and patterns of times of a language, by its number, or for
        None what all share; by the names of the members of `PeriodWords` and
        `PeriodRules`. It is asked once for each.
    now: When it is asked, in seconds since 1970.
    zone: The user's time zone; None is UTC.
    local: Returns the time in a zone by the user's clock, in microseconds since 1970;
        None if it is out of range. It is asked if the query may name a period.

Returns:
    The terms of its words, the optional ones, and the marks of its words as names;
    whether it asks for a time; the period that it names and those that it may mean as
    well, each with its begin and its end by the user's clock, or None. None if the
    tables do not cover it: other letters, or too many of them.

Raises:
    InvalidTypeError: No str.)");
  bound.def_property_readonly("nbytes", &TextAnalyzer::nbytes,
                              "Memory that it holds, in bytes.");
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("a TextAnalyzer cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

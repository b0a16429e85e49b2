#include "vecall/text_analyzer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "analysis/alphabet.hpp"
#include "analysis/periods.hpp"
#include "analysis/scanners.hpp"
#include "analysis/word_splitter.hpp"
#include "analysis/word_table.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

// Flags of a word: one bit a language whose stop word it is, and these.
constexpr unsigned kTelling = 1U << TextAnalyzer::kMostLanguages;
constexpr unsigned kTimeWord = 2 * kTelling;
constexpr unsigned kOpening = 4 * kTelling;
constexpr unsigned kStopWord = kTelling - 1;

constexpr std::uint64_t kPart = std::uint64_t{1} << 63;
constexpr std::size_t kEnglish = 0;

constexpr std::size_t kLongestQuestion = 40;  // words
constexpr std::size_t kLongestRequest = 20;   // words, of a user
constexpr std::size_t kLongestName = 40;      // letters before a Turkish suffix
constexpr std::size_t kShortestPart = 4;      // letters of a part of a compound
constexpr std::size_t kLongestCompound = 40;  // letters
constexpr std::size_t kMostCompounds = 64;    // of a text
constexpr std::size_t kLongestKept = 64;      // letters of a word in the table
constexpr std::size_t kLongestQuery = 32 * TextAnalyzer::kMostAsked;  // letters
constexpr std::size_t kLongestWithPeriod =
    1024;  // letters; of others Python reads ends

using WordSet = std::set<std::u16string, std::less<>>;

WordSet set_of(const TextRules::Words& words) {
  return {words.begin(), words.end()};
}

WordTable::Flagged flagged_words(const TextRules& rules) {
  std::map<std::u16string, unsigned> flags;
  for (std::size_t language = 0; language < rules.stop_words.size(); ++language) {
    for (const auto& word : rules.stop_words[language]) flags[word] |= 1U << language;
  }
  for (const auto& word : rules.telling) flags[word] |= kTelling;
  for (const auto& word : rules.time_words) flags[word] |= kTimeWord;
  for (const auto& word : rules.opening) flags[word] |= kOpening;
  WordTable::Flagged flagged;
  for (const auto& [word, its] : flags) {
    flagged.emplace_back(word, static_cast<std::uint16_t>(its));
  }
  return flagged;
}

bool may_be_compound(const Word& word) {
  return word.is_alphabetic && word.text.size() >= 2 * kShortestPart &&
         word.text.size() <= kLongestCompound;
}

// Appends what is no 0 and not there yet, up to the most of a query.
void append_new(std::uint64_t value, std::vector<std::uint64_t>& out) {
  if (value == 0 || out.size() == TextAnalyzer::kMostAsked) return;
  if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
}

}  // namespace

struct TextAnalyzer::Parts {
  explicit Parts(const TextRules& rules)
      : alphabet(rules),
        table(flagged_words(rules), kMostWords),
        elided(rules.elided.begin(), rules.elided.end()),
        units(set_of(rules.units)),
        ordinals(set_of(rules.ordinals)),
        endings(set_of(rules.endings)),
        months(rules.months),
        user(rules.user),
        languages(rules.stop_words.size()),
        german(rules.german),
        turk(rules.turk),
        question(rules.question),
        time(rules.time),
        dated(rules.dated) {
    if (languages == 0 || languages > kMostLanguages || german >= languages ||
        turk >= languages) {
      throw InvalidArgumentError("stop_words: expected 1 to 7 languages, each known");
    }
    if (!rules.asks_time.empty()) asks_time.emplace(alphabet, rules.asks_time);
    if (months.size() != 12) throw InvalidArgumentError("months: expected twelve");
    for (const auto& [word, of] : elided) {
      for (const std::size_t language : of) {
        if (language >= languages) {
          throw InvalidArgumentError("elided: a language is unknown");
        }
      }
    }
  }

  Alphabet alphabet;
  WordTable table;
  PeriodTables periods;
  std::optional<Pattern> asks_time;
  WordSplitter::Elided elided;
  WordSet units;
  WordSet ordinals;
  WordSet endings;
  Strings months;
  std::u16string user;
  std::size_t languages;
  std::size_t german;
  std::size_t turk;
  std::uint64_t question;
  std::uint64_t time;
  std::uint64_t dated;
};

class TextAnalyzer::Batch::State {
 public:
  explicit State(Parts& parts)
      : parts_(&parts),
        words_(parts.table.now()),
        splitter_(parts.alphabet, parts.elided) {}

  Outcome analyse(const Memory& memory, std::vector<std::uint64_t>& out);
  Outcome analyse(const Query& query, QueryTerms& out);

  [[nodiscard]] const std::vector<std::size_t>& unknown_periods() const {
    return unknown_periods_;
  }
  [[nodiscard]] Strings unknown(std::size_t language) const {
    Strings words;
    for (const Learned* const one : unknown_[language]) words.push_back(one->first);
    return words;
  }

  void learn(std::size_t language, std::span<const std::uint64_t> terms) {
    if (terms.size() != unknown_[language].size()) {
      throw InvalidArgumentError("terms: expected one for each unknown word");
    }
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if ((terms[i] & kPart) != 0) {
        throw InvalidArgumentError("terms: one has more than 63 bits");
      }
      auto& [word, its] = *unknown_[language][i];
      its[language] = terms[i];
      if (word.size() <= kLongestKept) parts_->table.set(word, language, terms[i]);
    }
    unknown_[language].clear();
  }

 private:
  using Terms = std::array<std::uint64_t, kTermsAWord>;
  using Learned = std::pair<const std::u16string, Terms>;

  // A word with what the table knows of it.
  struct Known {
    Word word;
    const WordEntry* entry = nullptr;
  };

  [[nodiscard]] const Alphabet& alphabet() const { return parts_->alphabet; }
  std::uint64_t term(View word, const WordEntry* entry, std::size_t language);
  std::uint64_t term(View word, std::size_t language) {
    return term(word, words_->find(word), language);
  }
  void split(View folded, unsigned classes);
  void append_terms(std::size_t language);
  void append_terms(const Strings& words, std::size_t language);
  [[nodiscard]] std::size_t language(unsigned classes) const;
  void append_text(const Memory& memory, unsigned classes);
  void append_other_words();
  void append_suffixed_words();
  void append_marks(const Memory& memory, unsigned classes);
  void append_parts(unsigned classes, std::size_t language);
  void append_compound_parts(std::size_t language);
  template <class Found>
  void for_each_part(const Word& word, Found found) const;
  [[nodiscard]] bool may_name_period(unsigned classes) const;
  Outcome take_period(const Query& query, std::size_t language, unsigned classes,
                      QueryTerms& out);
  void append_optional(std::size_t language, std::vector<std::uint64_t>& out);
  [[nodiscard]] bool may_be_german(std::size_t language) const;
  void append_author(unsigned classes);
  void append_date(std::int64_t day);

  Parts* parts_;
  std::shared_ptr<const WordTable::Words> words_;
  WordSplitter splitter_;

  // What is unknown, and what was learned since: the table may have begun anew.
  std::unordered_map<std::u16string, Terms, WordHash> learned_;
  std::array<std::vector<Learned*>, kTermsAWord> unknown_;
  std::vector<std::size_t> unknown_periods_;
  bool has_unknown_ = false;

  // Of the memory that is being analysed.
  std::u16string letters_;
  std::u16string folded_;
  std::u16string spaced_;      // the same with single spaces
  std::vector<View> opening_;  // words of time
  bool is_camel_ = false;      // it has a word with a capital inside
  std::vector<Word> split_;
  std::vector<Known> found_;
  std::vector<std::uint64_t> terms_;
  std::vector<std::uint64_t> marks_;
};

// The term of a word, or 0 for none; it is noted if it is unknown.
std::uint64_t TextAnalyzer::Batch::State::term(View word, const WordEntry* entry,
                                               std::size_t language) {
  if (entry != nullptr) {
    const std::uint64_t known = entry->terms[language].load(std::memory_order_relaxed);
    if (known != kUnknownTerm) return known;
  }
  constexpr std::uint64_t kAsked = kUnknownTerm - 1;
  auto [at, is_new] = learned_.try_emplace(std::u16string(word));
  std::uint64_t& known = at->second[language];
  if (is_new) at->second.fill(kUnknownTerm);
  if (known < kAsked) return known;
  if (known == kUnknownTerm) {
    known = kAsked;
    unknown_[language].push_back(&*at);
  }
  has_unknown_ = true;
  return 0;
}

void TextAnalyzer::Batch::State::split(View folded, unsigned classes) {
  splitter_.split(folded, classes, split_);
  found_.clear();
  for (const Word& word : split_) {
    found_.push_back({.word = word, .entry = words_->find(word.text)});
  }
}

void TextAnalyzer::Batch::State::append_terms(std::size_t language) {
  for (const Known& each : found_) {
    const std::uint64_t its = term(each.word.text, each.entry, language);
    if (its != 0) terms_.push_back(its);
  }
}

void TextAnalyzer::Batch::State::append_terms(const Strings& words,
                                              std::size_t language) {
  for (const auto& word : words) {
    const std::uint64_t its = term(word, language);
    if (its != 0) terms_.push_back(its);
  }
}

TextAnalyzer::Outcome TextAnalyzer::Batch::State::analyse(
    const Memory& memory, std::vector<std::uint64_t>& out) {
  std::int64_t day = 0;
  if (memory.time) {
    // As Python's timedelta: whole microseconds, half to even.
    double seconds = 0;
    const double rest = std::modf(*memory.time, &seconds);
    constexpr double kFirst = -62'135'596'800;  // the years 1 to 9999
    constexpr double kLast = 253'402'300'799;
    if (!(*memory.time >= kFirst && *memory.time <= kLast)) return Outcome::kForeign;
    constexpr std::int64_t kMicros = 1'000'000;
    const auto micros = std::chrono::microseconds(
        static_cast<std::int64_t>(seconds) * kMicros +
        static_cast<std::int64_t>(std::nearbyint(rest * kMicros)));
    day = std::chrono::floor<std::chrono::days>(micros).count();
  }
  terms_.clear();
  marks_.clear();
  has_unknown_ = false;
  unsigned classes = 0;
  if (!alphabet().read(memory.text, letters_, folded_, classes)) {
    return Outcome::kForeign;
  }
  append_text(memory, classes);
  if (memory.author.size > 0) {
    if (!alphabet().read(memory.author, letters_, folded_, classes)) {
      return Outcome::kForeign;
    }
    append_author(classes);
  }
  if (memory.time) append_date(day);
  if (has_unknown_) return Outcome::kUnknownWords;
  out.insert(out.end(), terms_.begin(), terms_.end());
  out.insert(out.end(), marks_.begin(), marks_.end());
  return Outcome::kDone;
}

TextAnalyzer::Outcome TextAnalyzer::Batch::State::analyse(const Query& query,
                                                          QueryTerms& out) {
  unsigned classes = 0;
  if (query.text.size > kLongestQuery ||
      !alphabet().read(query.text, letters_, folded_, classes) ||
      folded_.size() > kLongestQuery) {
    return Outcome::kForeign;
  }
  terms_.clear();
  has_unknown_ = false;
  PatternMatch asked;
  out.asks_time = parts_->asks_time && parts_->asks_time->match(folded_, 0, asked);
  split(folded_, classes);
  const std::size_t language = this->language(classes);
  out.period.reset();
  if (query.by_period && may_name_period(classes)) {
    const Outcome outcome = take_period(query, language, classes, out);
    if (outcome != Outcome::kDone) return outcome;
  }
  append_terms(language);
  out.optional.clear();
  append_optional(language, out.optional);
  out.authors.clear();
  for (std::size_t i = 0; i < std::min(found_.size(), kMostAsked); ++i) {
    append_new(term(found_[i].word.text, found_[i].entry, kAuthors), out.authors);
  }
  if (has_unknown_) return Outcome::kUnknownWords;
  if (terms_.size() > kMostAsked) terms_.resize(kMostAsked);
  out.terms = terms_;
  return Outcome::kDone;
}

// Whether words of time or numbers stand in it. "An" is a year only in French.
bool TextAnalyzer::Batch::State::may_name_period(unsigned classes) const {
  if ((classes & kDigit) != 0) return true;
  const auto has = [this](View wanted) {
    return std::any_of(found_.begin(), found_.end(), [wanted](const Known& each) {
      return each.word.text == wanted;
    });
  };
  if (std::any_of(found_.begin(), found_.end(), [](const Known& each) {
        return each.entry != nullptr && (each.entry->flags & kOpening) != 0;
      })) {
    return true;
  }
  return has(u"an") && (has(u"y") || folded_.find(u"l'an") != std::u16string::npos) &&
         std::all_of(folded_.begin(), folded_.end(),
                     [](char16_t letter) { return letter < 128; });
}

// Finds the period of the query; if it names one, the other words are its words.
TextAnalyzer::Outcome TextAnalyzer::Batch::State::take_period(const Query& query,
                                                              std::size_t language,
                                                              unsigned classes,
                                                              QueryTerms& out) {
  if (folded_.size() > kLongestWithPeriod) return Outcome::kForeign;
  if (parts_->periods.common() == nullptr) {
    unknown_periods_.clear();
    return Outcome::kUnknownTimes;
  }
  if (!query.now) return Outcome::kNeedsTime;
  spaced_.clear();
  for (const char16_t letter : folded_) {
    if (!is_space(letter)) {
      spaced_.push_back(letter == u'\u2019' ? u'\'' : letter);
    } else if (!spaced_.empty() && spaced_.back() != u' ') {
      spaced_.push_back(u' ');
    }
  }
  if (!spaced_.empty() && spaced_.back() == u' ') spaced_.pop_back();
  opening_.clear();
  for (const Known& each : found_) {
    const bool opens = each.entry != nullptr && (each.entry->flags & kOpening) != 0;
    if (opens || each.word.text == u"an") opening_.push_back(each.word.text);
  }
  auto found = find_period(parts_->periods, {spaced_, opening_, language, *query.now},
                           alphabet(), unknown_periods_);
  if (!unknown_periods_.empty()) return Outcome::kUnknownTimes;
  if (!found) return Outcome::kDone;
  out.period = found->period;
  out.earlier = std::move(found->earlier);
  folded_ = std::move(found->rest);
  split(folded_, classes);
  return Outcome::kDone;
}

void TextAnalyzer::Batch::State::append_text(const Memory& memory, unsigned classes) {
  split(folded_, classes);
  const std::size_t language = this->language(classes);
  append_terms(language);
  Strings extra;
  is_camel_ = may_be_camel(letters_);
  if (is_camel_) append_camel_parts(alphabet(), letters_, extra);
  if ((classes & kDigit) != 0) {
    append_mixed_parts(alphabet(), folded_, parts_->units, extra);
  }
  if (language != kEnglish) {
    append_other_words();
  } else if ((classes & kApostrophe) != 0) {
    splitter_.for_each_elided(
        folded_, [&](const auto& elided, std::size_t at, std::size_t end) {
          extra.push_back(elided.first + folded_.substr(at + 1, end - at - 1));
        });
  }
  append_terms(extra, language);
  if ((classes & kApostrophe) != 0) append_suffixed_words();
  append_marks(memory, classes);
  append_parts(classes, language);
  append_compound_parts(language);
}

// The language with the most stop words, if they tell it; else English.
std::size_t TextAnalyzer::Batch::State::language(unsigned classes) const {
  std::array<std::size_t, kMostLanguages> counts{};
  unsigned telling = 0;  // languages
  for (const Known& each : found_) {
    if (each.entry == nullptr) continue;
    const unsigned flags = each.entry->flags;
    const unsigned languages = flags & kStopWord;
    if (languages == 0) continue;
    if ((flags & kTelling) != 0) telling |= languages;
    for (std::size_t i = 0; i < parts_->languages; ++i)
      counts[i] += languages >> i & 1U;
  }
  if ((classes & kApostrophe) != 0) {
    splitter_.for_each_elided(folded_,
                              [&](const auto& elided, std::size_t, std::size_t) {
                                for (const std::size_t language : elided.second) {
                                  ++counts[language];
                                  if (elided.first.size() > 1)
                                    telling |= 1U << language;
                                }
                              });
  }
  if ((classes & kTurkish) != 0 && (classes & kRomanian) == 0) {
    for_each_run(alphabet(), letters_, [&](View run) {
      const bool found = std::any_of(run.begin(), run.end(), [&](char16_t letter) {
        return alphabet().is(letter, kTurkish);
      });
      if (!found) return;
      ++counts[parts_->turk];
      telling |= 1U << parts_->turk;
    });
  }
  const auto best = static_cast<std::size_t>(
      std::max_element(counts.begin(), counts.end()) - counts.begin());
  return (telling >> best & 1U) != 0 || counts[best] > 1 ? best : kEnglish;
}

// Also the English terms that are none of the text's language.
void TextAnalyzer::Batch::State::append_other_words() {
  std::vector<std::uint64_t> known = terms_;
  std::sort(known.begin(), known.end());
  for (const Known& each : found_) {
    const std::uint64_t its = term(each.word.text, each.entry, kEnglish);
    if (its != 0 && !std::binary_search(known.begin(), known.end(), its)) {
      terms_.push_back(its);
    }
  }
}

// Names with a Turkish suffix, as one word with it.
void TextAnalyzer::Batch::State::append_suffixed_words() {
  Strings words;
  const View folded = folded_;
  for (std::size_t at = 0; at < folded.size(); ++at) {
    if (!alphabet().is(folded[at], kApostrophe)) continue;
    const std::size_t end = suffix_end(alphabet(), folded, at);
    if (end == 0) continue;
    std::size_t begin = at;
    while (begin > 0 && at - begin < kLongestName &&
           alphabet().is(folded[begin - 1], kWordLetter)) {
      --begin;
    }
    words.emplace_back(folded.substr(begin, at - begin)) +=
        folded.substr(at + 1, end - at - 1);
  }
  append_terms(words, kEnglish);
}

void TextAnalyzer::Batch::State::append_marks(const Memory& memory, unsigned classes) {
  const auto is_user = [&] {
    if (memory.author.size != parts_->user.size()) return false;
    std::u16string letters;
    std::u16string folded;
    unsigned found = 0;
    return alphabet().read(memory.author, letters, folded, found) &&
           letters == parts_->user;
  };
  if (found_.size() <= kLongestQuestion && asks(alphabet(), letters_) &&
      (found_.size() <= kLongestRequest || !is_user())) {
    marks_.push_back(parts_->question);
  }
  const bool has_time_word =
      std::any_of(found_.begin(), found_.end(), [](const Known& each) {
        return each.entry != nullptr && (each.entry->flags & kTimeWord) != 0;
      });
  if (has_time_word || ((classes & kDigit) != 0 &&
                        has_time_number(alphabet(), folded_, parts_->ordinals))) {
    marks_.push_back(parts_->time);
  }
}

// Words that neighbours give together, and the letters of signed words.
void TextAnalyzer::Batch::State::append_parts(unsigned classes, std::size_t language) {
  Strings parts;
  for (std::size_t i = 1; i < found_.size(); ++i) {
    const Word& one = found_[i - 1].word;
    const Word& other = found_[i].word;
    if ((one.is_alphabetic && other.is_number) ||
        (one.is_number && other.is_alphabetic)) {
      parts.emplace_back(one.text) += other.text;
    }
  }
  if (is_camel_) append_joined_parts(alphabet(), letters_, parts);
  if ((classes & kSign) != 0) {
    for (const Known& each : found_) {
      const View word = each.word.text;
      if (alphabet().is(word.back(), kSign)) parts.emplace_back(word.substr(0, 1));
    }
  }
  for (const auto& part : parts) {
    const std::uint64_t its = term(part, language);
    if (its != 0) marks_.push_back(its | kPart);
  }
}

bool TextAnalyzer::Batch::State::may_be_german(std::size_t language) const {
  if (language != kEnglish) return language == parts_->german;
  return std::none_of(found_.begin(), found_.end(), [this](const Known& each) {
    const unsigned languages =
        each.entry == nullptr ? 0 : each.entry->flags & kStopWord;
    return languages != 0 && (languages >> parts_->german & 1U) == 0;
  });
}

// Calls found(part) with each begin and each end of a long word that may be a word of
// its own; a part may come twice.
template <class Found>
void TextAnalyzer::Batch::State::for_each_part(const Word& word, Found found) const {
  const View text = word.text;
  if (!may_be_compound(word)) return;
  for (std::size_t cut = kShortestPart; cut + kShortestPart <= text.size(); ++cut) {
    found(text.substr(0, cut));
    const View end = text.substr(cut);
    if (!parts_->endings.contains(end)) found(end);
  }
}

void TextAnalyzer::Batch::State::append_compound_parts(std::size_t language) {
  if (!may_be_german(language)) return;
  using Seen = std::unordered_set<View, WordHash>;
  std::vector<View> parts;
  Seen words;
  Seen seen;
  for (const Known& each : found_) {
    if (words.size() == kMostCompounds) break;
    if (!may_be_compound(each.word) || !words.insert(each.word.text).second) continue;
    for_each_part(each.word, [&](View part) {
      if (seen.insert(part).second) parts.push_back(part);
    });
  }
  std::unordered_set<std::uint64_t> terms;
  for (const std::size_t of : {parts_->german, kEnglish}) {
    for (const View part : parts) {
      const std::uint64_t its = term(part, of);
      if (its != 0 && terms.insert(its).second) marks_.push_back(its | kPart);
    }
  }
}

// The words as parts of others, and their own parts or the English words.
void TextAnalyzer::Batch::State::append_optional(std::size_t language,
                                                 std::vector<std::uint64_t>& out) {
  for (const std::uint64_t its : terms_) append_new(its | kPart, out);
  if (may_be_german(language)) {
    std::size_t terms = 0;
    std::vector<View> parts;
    for (const Known& each : found_) {
      parts.clear();
      for_each_part(each.word, [&](View part) {
        if (std::find(parts.begin(), parts.end(), part) != parts.end()) return;
        parts.push_back(part);
        const std::uint64_t its = term(part, language);
        if (its == 0) return;
        ++terms;
        append_new(its | kPart, out);
      });
      if (terms >= kMostAsked) break;
    }
  } else if (language == parts_->turk) {  // it may hold a name
    for (const Known& each : found_) {
      const std::uint64_t its = term(each.word.text, each.entry, kEnglish);
      if (its != 0) append_new(its | kPart, out);
    }
  }
}

void TextAnalyzer::Batch::State::append_author(unsigned classes) {
  split(folded_, classes);
  append_terms(kEnglish);
  std::unordered_set<std::uint64_t> seen;
  for (const Known& each : found_) {
    const std::uint64_t its = term(each.word.text, each.entry, kAuthors);
    if (its != 0 && (found_.size() == 1 || seen.insert(its).second)) {
      marks_.push_back(its);
    }
  }
}

void TextAnalyzer::Batch::State::append_date(std::int64_t day) {
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{day}}};
  const auto spelled = [](unsigned number) {
    const std::string digits = std::to_string(number);
    return std::u16string(digits.begin(), digits.end());
  };
  append_terms({spelled(static_cast<unsigned>(date.day())),
                parts_->months[static_cast<unsigned>(date.month()) - 1],
                spelled(static_cast<unsigned>(static_cast<int>(date.year())))},
               kEnglish);
  marks_.push_back(parts_->dated);
}

TextAnalyzer::TextAnalyzer(const TextRules& rules)
    : parts_(std::make_unique<Parts>(rules)) {}
TextAnalyzer::~TextAnalyzer() = default;

void TextAnalyzer::learn_periods(const PeriodRules& rules) {
  parts_->periods.learn(std::make_unique<PeriodCommon>(parts_->alphabet, rules));
}

void TextAnalyzer::learn_periods(std::size_t language, const PeriodWords& words) {
  parts_->periods.learn(language,
                        std::make_unique<PeriodLanguage>(parts_->alphabet, words));
}

std::size_t TextAnalyzer::nbytes() const {
  return parts_->table.nbytes();
}

TextAnalyzer::Batch::Batch(TextAnalyzer& analyzer)
    : state_(std::make_unique<State>(*analyzer.parts_)) {}
TextAnalyzer::Batch::~Batch() = default;

TextAnalyzer::Outcome TextAnalyzer::Batch::analyse(const Memory& memory,
                                                   std::vector<std::uint64_t>& out) {
  return state_->analyse(memory, out);
}

std::vector<std::u16string> TextAnalyzer::Batch::unknown(std::size_t language) const {
  return state_->unknown(language);
}

const std::vector<std::size_t>& TextAnalyzer::Batch::unknown_periods() const {
  return state_->unknown_periods();
}

TextAnalyzer::Outcome TextAnalyzer::Batch::analyse(const Query& query,
                                                   QueryTerms& out) {
  return state_->analyse(query, out);
}

void TextAnalyzer::Batch::learn(std::size_t language,
                                std::span<const std::uint64_t> terms) {
  state_->learn(language, terms);
}

}  // namespace vecall

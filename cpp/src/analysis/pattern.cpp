#include "analysis/pattern.hpp"

#include <algorithm>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr std::array<View, kGroups> kNames = {
    u"p", u"c", u"a", u"k",  u"x",  u"y",     u"b",      u"u",     u"n",    u"f",
    u"t", u"d", u"m", u"d0", u"d1", u"since", u"before", u"until", u"after"};

[[noreturn]] void refuse() {
  throw InvalidArgumentError("periods: a pattern has no meaning here");
}

}  // namespace

// Turns a text into steps.
class Pattern::Parser {
 public:
  Parser(View text, Pattern& made) : text_(text), made_(&made) {}

  Code all() {
    Code code = alternatives();
    if (at_ != text_.size()) refuse();
    code.push_back({.op = Op::kDone});
    return code;
  }

 private:
  [[nodiscard]] bool ended() const { return at_ == text_.size(); }
  [[nodiscard]] bool sees(View what) const {
    return text_.substr(at_, what.size()) == what;
  }
  bool takes(View what) {
    if (!sees(what)) return false;
    at_ += what.size();
    return true;
  }
  char16_t next() {
    if (ended()) refuse();
    return text_[at_++];
  }

  static void append(Code& to, const Code& more) {
    to.insert(to.end(), more.begin(), more.end());
  }
  static std::int32_t size_of(const Code& code) {
    return static_cast<std::int32_t>(code.size());
  }

  // NOLINTBEGIN(misc-no-recursion): as deep as the groups of the package's patterns
  Code alternatives() {
    std::vector<Code> branches = {sequence()};
    while (takes(u"|")) branches.push_back(sequence());
    if (branches.size() > 1 && std::all_of(branches.begin(), branches.end(), is_word)) {
      return of_words(branches);
    }
    Code code = std::move(branches.back());
    for (auto branch = branches.rbegin() + 1; branch != branches.rend(); ++branch) {
      Code longer = {{.op = Op::kEither, .other = size_of(*branch) + 2}};
      append(longer, *branch);
      longer.push_back({.op = Op::kGo, .other = size_of(code) + 1});
      append(longer, code);
      code = std::move(longer);
    }
    return code;
  }

  static bool is_word(const Code& code) {
    return !code.empty() && std::all_of(code.begin(), code.end(), [](const Step& step) {
      return step.op == Op::kLetter;
    });
  }

  // Words of different first letters cannot both fit: their order is free.
  Code of_words(const std::vector<Code>& branches) {
    std::vector<std::u16string> words;
    for (const Code& branch : branches) {
      auto& word = words.emplace_back();
      for (const Step& step : branch) word += step.letter;
    }
    std::stable_sort(words.begin(), words.end(),
                     [](const auto& a, const auto& b) { return a[0] < b[0]; });
    Words& made = made_->words_.emplace_back();
    const auto count = static_cast<std::uint16_t>(words.size());
    made.others = {count, count};
    for (std::uint16_t i = 0; i < count; ++i) {
      const char16_t first = words[i][0];
      if (first >= made.of_letter.size()) {
        made.others.first = std::min(made.others.first, i);
        continue;
      }
      auto& [begin, end] = made.of_letter.at(first);
      if (begin == end) begin = i;
      end = static_cast<std::uint16_t>(i + 1);
    }
    made.words = std::move(words);
    const auto index = static_cast<std::uint16_t>(made_->words_.size() - 1);
    return {{.op = Op::kWords, .index = index}};
  }

  Code sequence() {
    Code code;
    while (!ended() && !sees(u"|") && !sees(u")")) append(code, repeated(one()));
    return code;
  }

  Code repeated(const Code& code) {
    if (takes(u"?")) return several(code, 0, 1);
    if (sees(u"+") || sees(u"*")) {
      if (code.size() != 1 || code[0].op != Op::kSet) refuse();
      const std::int32_t least = next() == u'+' ? 1 : 0;
      return {{.op = Op::kMany, .index = code[0].index, .other = least}};
    }
    if (!takes(u"{")) return code;
    const unsigned least = number();
    const unsigned most = takes(u",") ? number() : least;
    if (!takes(u"}") || most < least) refuse();
    return several(code, least, most);
  }

  static Code several(const Code& code, unsigned least, unsigned most) {
    Code optional;
    for (unsigned i = least; i < most; ++i) {
      Code longer = {
          {.op = Op::kEither, .other = size_of(code) + size_of(optional) + 1}};
      append(longer, code);
      append(longer, optional);
      optional = std::move(longer);
    }
    Code all;
    for (unsigned i = 0; i < least; ++i) append(all, code);
    append(all, optional);
    return all;
  }

  unsigned number() {
    const char16_t digit = next();
    if (digit < u'0' || digit > u'9') refuse();
    return digit - unsigned{u'0'};
  }

  Code one() {
    if (takes(u"(?:")) return closed(alternatives());
    if (takes(u"(?!")) return look(closed(alternatives()), true, false);
    if (takes(u"(?<!")) return look(closed(alternatives()), true, true);
    if (takes(u"(?<=")) return look(closed(alternatives()), false, true);
    if (takes(u"(?P<")) return named();
    if (takes(u"[")) return set();
    if (takes(u"\\Z")) return {{.op = Op::kEnd}};
    if (takes(u"\\b")) return {{.op = Op::kEdge}};
    if (takes(u"\\w")) return of_set({.has_words = true});
    if (takes(u"\\s")) return of_set({.has_spaces = true});
    if (takes(u"\\d")) return of_set({.has_digits = true});
    return {{.op = Op::kLetter, .letter = letter()}};
  }

  char16_t letter() {
    constexpr View kSpecial = u"()[]{}?*+|.^$";
    const char16_t found = next();
    if (found == u'\\') return escaped();
    if (kSpecial.find(found) != View::npos) refuse();
    return found;
  }

  char16_t escaped() {
    const char16_t found = next();
    if (found == u'n') return u'\n';
    const bool is_letter = (found >= u'a' && found <= u'z') ||
                           (found >= u'A' && found <= u'Z') ||
                           (found >= u'0' && found <= u'9');
    if (is_letter) refuse();
    return found;
  }

  Code closed(Code code) {
    if (!takes(u")")) refuse();
    return code;
  }

  Code named() {
    const std::size_t end = text_.find(u'>', at_);
    if (end == View::npos) refuse();
    const auto* const name =
        std::find(kNames.begin(), kNames.end(), text_.substr(at_, end - at_));
    if (name == kNames.end()) refuse();
    at_ = end + 1;
    const auto place = static_cast<std::uint16_t>(2 * (name - kNames.begin()));
    Code code = {{.op = Op::kPlace, .index = place}};
    append(code, closed(alternatives()));
    code.push_back({.op = Op::kPlace, .index = static_cast<std::uint16_t>(place + 1)});
    return code;
  }

  // NOLINTEND(misc-no-recursion)

  Code look(const Code& inner, bool negative, bool before) {
    std::uint16_t width = 0;
    for (std::size_t at = 0; before && at < inner.size();) {
      const Step& step = inner[at];
      if (step.op == Op::kLetter || step.op == Op::kSet) ++width;
      if (step.op == Op::kWords) {
        width = static_cast<std::uint16_t>(
            width + made_->words_[step.index].words.front().size());
      }
      at += step.op == Op::kGo ? static_cast<std::size_t>(step.other) : 1;
    }
    Code code = {{.op = Op::kLook,
                  .negative = negative,
                  .index = width,
                  .other = size_of(inner) + 2}};
    append(code, inner);
    code.push_back({.op = Op::kDone});
    return code;
  }

  Code set() {
    Set found;
    while (!takes(u"]")) {
      if (takes(u"\\w")) {
        found.has_words = true;
      } else if (takes(u"\\d")) {
        found.has_digits = true;
      } else if (takes(u"\\W")) {
        found.has_others = true;
      } else {
        const char16_t begin = in_set();
        const bool is_range = sees(u"-") && !sees(u"-]");
        if (is_range) ++at_;
        found.ranges.emplace_back(begin, is_range ? in_set() : begin);
      }
    }
    return of_set(std::move(found));
  }

  char16_t in_set() {
    const char16_t found = next();
    if (found == u'^') refuse();
    return found == u'\\' ? escaped() : found;
  }

  Code of_set(Set set) {
    auto& sets = made_->sets_;
    sets.push_back(std::move(set));
    return {{.op = Op::kSet, .index = static_cast<std::uint16_t>(sets.size() - 1)}};
  }

  View text_;
  std::size_t at_ = 0;
  Pattern* made_;
};

// Matches at one place after the other.
class Pattern::Run {
 public:
  Run(const Pattern& pattern, View text, PatternMatch& match, bool whole)
      : pattern_(&pattern), text_(text), match_(&match), whole_(whole) {
    match.places.fill(PatternMatch::kNone);
  }

  // What fails leaves the places of groups as they were.
  bool matches(std::size_t at) {
    if (!pattern_->may_begin(text_, at)) return false;
    if (!runs(pattern_->code_.data() + pattern_->begin_, at, true)) return false;
    match_->begin = at;
    return true;
  }

 private:
  // NOLINTBEGIN(misc-no-recursion): no deeper than a pattern is long
  bool runs(const Step* step, std::size_t at, bool is_whole_pattern) {
    while (true) {
      switch (step->op) {
        case Op::kLetter:
          if (at >= text_.size() || text_[at] != step->letter) return false;
          ++at;
          ++step;
          break;
        case Op::kSet:
          if (at >= text_.size() ||
              !pattern_->contains(pattern_->sets_[step->index], text_[at])) {
            return false;
          }
          ++at;
          ++step;
          break;
        case Op::kMany:
          return runs_with_many(step, at, is_whole_pattern);
        case Op::kWords:
          return runs_with_words(step, at, is_whole_pattern);
        case Op::kEdge:
          if (is_edge(at) == step->negative) return false;
          ++step;
          break;
        case Op::kEither:
          if (may_begin(step[1], at) && runs(step + 1, at, is_whole_pattern)) {
            return true;
          }
          step += step->other;
          break;
        case Op::kGo:
          step += step->other;
          break;
        case Op::kPlace:
          return runs_with_place(step, at, is_whole_pattern);
        case Op::kLook: {
          const bool found =
              at >= step->index && runs(step + 1, at - step->index, false);
          if (found == step->negative) return false;
          step += step->other;
          break;
        }
        case Op::kEnd:
          if (at != text_.size()) return false;
          ++step;
          break;
        case Op::kDone:
          if (!is_whole_pattern) return true;
          if (whole_ && at != text_.size()) return false;
          match_->end = at;
          return true;
      }
    }
  }

  // As many letters of a set as lead to a match.
  bool runs_with_many(const Step* step, std::size_t at, bool is_whole_pattern) {
    const Set& set = pattern_->sets_[step->index];
    const std::size_t least = at + static_cast<std::size_t>(step->other);
    std::size_t end = at;
    while (end < text_.size() && pattern_->contains(set, text_[end])) ++end;
    for (; end >= least; --end) {
      if (runs(step + 1, end, is_whole_pattern)) return true;
      if (end == 0) break;
    }
    return false;
  }

  bool runs_with_words(const Step* step, std::size_t at, bool is_whole_pattern) {
    if (at >= text_.size()) return false;
    const Words& all = pattern_->words_[step->index];
    const char16_t letter = text_[at];
    const auto [begin, end] =
        letter < all.of_letter.size() ? all.of_letter[letter] : all.others;
    for (std::size_t i = begin; i < end; ++i) {
      const std::u16string& word = all.words[i];
      if (text_.substr(at, word.size()) == word &&
          runs(step + 1, at + word.size(), is_whole_pattern)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool is_edge(std::size_t at) const {
    const auto in_word = [this](std::size_t place) {
      return place < text_.size() && pattern_->alphabet_->is(text_[place], kWordLetter);
    };
    return (at > 0 && in_word(at - 1)) != in_word(at);
  }

  bool runs_with_place(const Step* step, std::size_t at, bool is_whole_pattern) {
    std::uint32_t& place = match_->places[step->index];
    const std::uint32_t before = place;
    place = static_cast<std::uint32_t>(at);
    if (runs(step + 1, at, is_whole_pattern)) return true;
    place = before;
    return false;
  }

  // NOLINTEND(misc-no-recursion)

  // Spares calls for most of the many words of an alternative.
  [[nodiscard]] bool may_begin(const Step& step, std::size_t at) const {
    return step.op != Op::kLetter || (at < text_.size() && text_[at] == step.letter);
  }

  const Pattern* pattern_;
  View text_;
  PatternMatch* match_;
  bool whole_;
};

Pattern::Pattern(const Alphabet& alphabet, View text) : alphabet_(&alphabet) {
  code_ = Parser(text, *this).all();
  constexpr View kBegin = u"(?<!\\w)";
  begins_word_ = text.starts_with(kBegin) && code_[0].op == Op::kLook;
  if (begins_word_) begin_ = static_cast<std::size_t>(code_[0].other);
  std::vector<bool> seen(code_.size());
  find_first(0, seen);
}

bool Pattern::search(View text, std::size_t from, PatternMatch& match) const {
  Run run(*this, text, match, false);
  for (std::size_t at = from; at <= text.size(); ++at) {
    if (!first_of_all_) {
      if (at == text.size()) return false;
      const char16_t letter = text[at];
      if (letter < first_.size() && !first_[letter]) continue;
    }
    if (run.matches(at)) return true;
  }
  return false;
}

bool Pattern::match(View text, std::size_t at, PatternMatch& match) const {
  return Run(*this, text, match, false).matches(at);
}

bool Pattern::matches_all(View text) const {
  PatternMatch match;
  return Run(*this, text, match, true).matches(0);
}

bool Pattern::contains(const Set& set, char16_t letter) const {
  return (set.has_words && alphabet_->is(letter, kWordLetter)) ||
         (set.has_digits && alphabet_->is(letter, kDigit)) ||
         (set.has_spaces && is_space(letter)) ||
         (set.has_others && !alphabet_->is(letter, kWordLetter)) ||
         std::any_of(set.ranges.begin(), set.ranges.end(), [letter](const auto& range) {
           return letter >= range.first && letter <= range.second;
         });
}

// Notes what letters may come first from a step on.
// NOLINTNEXTLINE(misc-no-recursion): no deeper than a pattern is long
void Pattern::find_first(std::size_t at, std::vector<bool>& seen) {
  while (!seen[at]) {
    seen[at] = true;
    const Step& step = code_[at];
    switch (step.op) {
      case Op::kLetter:
        if (step.letter < first_.size()) first_[step.letter] = true;
        return;
      case Op::kSet:
      case Op::kMany:
        for (std::size_t letter = 0; letter < first_.size(); ++letter) {
          const auto as_letter = static_cast<char16_t>(letter);
          if (contains(sets_[step.index], as_letter)) first_[letter] = true;
        }
        if (step.op == Op::kSet || step.other > 0) return;
        ++at;
        break;
      case Op::kWords:
        for (const std::u16string& word : words_[step.index].words) {
          if (word[0] < first_.size()) first_[word[0]] = true;
        }
        return;
      case Op::kEither:
        find_first(at + 1, seen);
        at += static_cast<std::size_t>(step.other);
        break;
      case Op::kGo:
      case Op::kLook:  // what it looks at may be longer
        at = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at) + step.other);
        break;
      case Op::kPlace:
      case Op::kEdge:
        ++at;
        break;
      case Op::kEnd:
      case Op::kDone:
        first_of_all_ = true;
        return;
    }
  }
}

}  // namespace vecall

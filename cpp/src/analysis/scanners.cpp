#include "analysis/scanners.hpp"

#include <algorithm>
#include <unordered_set>

#include "analysis/word_table.hpp"

namespace vecall {

namespace {

constexpr std::size_t kLongestIdentifier = 100;  // letters
constexpr std::size_t kMostParts = 6;            // of one identifier that are joined

bool is_ascii_digit(char16_t letter) {
  return letter >= u'0' && letter <= u'9';
}

char16_t as_small(char16_t letter) {
  return is_capital(letter) ? static_cast<char16_t>(letter + (u'a' - u'A')) : letter;
}

// The parts of an ASCII word: capitals, a capital and small letters, or digits.
void split_camel(View word, std::vector<View>& parts) {
  parts.clear();
  std::size_t at = 0;
  while (at < word.size()) {
    const std::size_t begin = at;
    if (is_ascii_digit(word[at])) {
      while (at < word.size() && is_ascii_digit(word[at])) ++at;
    } else {
      while (at < word.size() && is_capital(word[at])) ++at;
      // The last capital belongs to the small letters after it.
      if (at < word.size() && is_small(word[at])) {
        if (at > begin + 1) {
          --at;
        } else {
          while (at < word.size() && is_small(word[at])) ++at;
        }
      }
    }
    at = std::max(at, begin + 1);
    parts.push_back(word.substr(begin, at - begin));
  }
}

// Calls found(word) with each ASCII word that has a capital inside.
template <class Found>
void for_each_camel(const Alphabet& alphabet, View text, Found found) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    bool is_ascii = true;
    while (at < text.size() && alphabet.in_word(text[at])) {
      is_ascii &= text[at] < 128;
      ++at;
    }
    const View word = text.substr(begin, at - begin);
    if (is_ascii && word.size() <= kLongestIdentifier && may_be_camel(word)) {
      found(word);
    }
    at += at < text.size() ? 1 : 0;
  }
}

bool take(View& left, View allowed) {
  if (left.empty() || allowed.find(left.front()) == View::npos) return false;
  left.remove_prefix(1);
  return true;
}

bool is_rest(View left, View last) {
  return left.empty() || left == last;
}

// [dt][ae](n|ki)? | [dt][iu]r | l[ae](r([iu]n?|[ae]|[dt][ae]n?)?)?
bool is_case(View left) {
  if (take(left, u"dt")) {
    if (take(left, u"ae")) return is_rest(left, u"n") || left == u"ki";
    return take(left, u"iu") && left == u"r";
  }
  if (!take(left, u"l") || !take(left, u"ae")) return false;
  if (left.empty()) return true;
  if (!take(left, u"r")) return false;
  if (left.empty()) return true;
  if (take(left, u"iu")) return is_rest(left, u"n");
  if (take(left, u"ae")) return left.empty();
  return take(left, u"dt") && take(left, u"ae") && is_rest(left, u"n");
}

// [aeiu] | [iu]n
bool follows_consonant(View left) {
  if (left.size() == 1) return take(left, u"aeiu");
  return take(left, u"iu") && left == u"n";
}

// y[aeiu] | yl[ae] | n[iu]n? | nd[ae]n? | n[ae] | s[iu](n[iuae]|n[dt][ae]n?)?
bool follows_vowel(View left) {
  if (take(left, u"y")) {
    if (take(left, u"l")) return left == u"a" || left == u"e";
    return left.size() == 1 && take(left, u"aeiu");
  }
  if (take(left, u"n")) {
    if (take(left, u"iu")) return is_rest(left, u"n");
    if (take(left, u"d")) return take(left, u"ae") && is_rest(left, u"n");
    return left == u"a" || left == u"e";
  }
  if (!take(left, u"s") || !take(left, u"iu")) return false;
  if (left.empty()) return true;
  if (!take(left, u"n")) return false;
  if (left.size() == 1 && View(u"iuae").find(left.front()) != View::npos) return true;
  return take(left, u"dt") && take(left, u"ae") && is_rest(left, u"n");
}

}  // namespace

std::size_t run_end(const Alphabet& alphabet, View text, std::size_t at) {
  while (at < text.size() && alphabet.is(text[at], kWordLetter)) ++at;
  return at;
}

bool may_be_camel(View text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (!is_capital(text[i])) continue;
    if (is_small(text[i - 1])) return true;
    if (is_capital(text[i - 1]) && i + 2 < text.size() && is_small(text[i + 1]) &&
        is_small(text[i + 2])) {
      return true;
    }
  }
  return false;
}

void append_camel_parts(const Alphabet& alphabet, View text, Strings& out) {
  std::vector<View> parts;
  for_each_camel(alphabet, text, [&](View word) {
    split_camel(word, parts);
    for (const View part : parts) {
      if (part.size() < 2) continue;
      std::u16string& made = out.emplace_back(part);
      std::transform(made.begin(), made.end(), made.begin(), as_small);
    }
  });
}

void append_joined_parts(const Alphabet& alphabet, View text, Strings& out) {
  std::unordered_set<std::u16string, WordHash> seen;
  std::vector<View> parts;
  for_each_camel(alphabet, text, [&](View word) {
    split_camel(word, parts);
    std::erase_if(parts, [](View part) { return is_ascii_digit(part.front()); });
    const std::size_t count = std::min(parts.size(), kMostParts);
    for (std::size_t begin = 0; begin < count; ++begin) {
      std::u16string joined(parts[begin]);
      for (std::size_t end = begin + 1; end < count; ++end) {
        joined += parts[end];
        std::u16string small = joined;
        std::transform(small.begin(), small.end(), small.begin(), as_small);
        if (seen.insert(small).second) out.push_back(std::move(small));
      }
    }
  });
}

void append_mixed_parts(const Alphabet& alphabet, View folded,
                        const std::set<std::u16string, std::less<>>& units,
                        Strings& out) {
  const auto is_digit = [&](char16_t letter) { return alphabet.is(letter, kDigit); };
  for_each_run(alphabet, folded, [&](View run) {
    const bool digits_first = is_digit(run.front());
    const View::const_iterator border =
        digits_first ? std::find_if_not(run.begin(), run.end(), is_digit)
                     : std::find_if(run.begin(), run.end(), is_digit);
    const auto first = static_cast<std::size_t>(border - run.begin());
    const std::size_t rest = run.size() - first;
    const View letters = digits_first ? run.substr(first) : run.substr(0, first);
    if (rest == 0 || letters.size() < (digits_first ? 2U : 3U) ||
        letters.find(u'_') != View::npos ||
        std::any_of(border, run.end(), [&](char16_t letter) {
          return is_digit(letter) == digits_first;
        })) {
      return;
    }
    if (digits_first && units.contains(letters)) return;
    out.emplace_back(run.substr(0, first));
    out.emplace_back(run.substr(first));
  });
}

bool has_time_number(const Alphabet& alphabet, View folded,
                     const std::set<std::u16string, std::less<>>& ordinals) {
  const auto is_digit = [&](std::size_t at) {
    return at < folded.size() && alphabet.is(folded[at], kDigit);
  };
  // Between two digits, a stop or a slash needs another, or the end of a number.
  const auto ends_date = [&](std::size_t at) {
    return at >= folded.size() || !alphabet.is(folded[at], kWordLetter);
  };
  for (std::size_t i = 1; i + 1 < folded.size(); ++i) {
    if (!is_digit(i - 1) || !is_digit(i + 1)) continue;
    if (folded[i] == u':' && is_digit(i + 2)) return true;
    if ((folded[i] == u'.' || folded[i] == u'/') &&
        (ends_date(i + 2) || (is_digit(i + 2) && ends_date(i + 3)))) {
      return true;
    }
  }
  bool found = false;
  for_each_run(alphabet, folded, [&](View run) {
    if (found || !alphabet.is(run.front(), kDigit)) return;
    const View::const_iterator end =
        std::find_if_not(run.begin(), run.end(),
                         [&](char16_t letter) { return alphabet.is(letter, kDigit); });
    const auto digits = static_cast<std::size_t>(end - run.begin());
    const View century = run.substr(0, 2);
    found = digits == run.size() ? digits == 4 && (century == u"19" || century == u"20")
                                 : digits <= 2 && ordinals.contains(run.substr(digits));
  });
  return found;
}

bool asks(const Alphabet& alphabet, View text) {
  while (!text.empty() && alphabet.is(text.back(), kClosing)) text.remove_suffix(1);
  return !text.empty() && text.back() == u'?';
}

std::size_t suffix_end(const Alphabet& alphabet, View folded, std::size_t at) {
  if (at < 2 || !alphabet.is(folded[at - 2], kWordLetter)) return 0;
  const char16_t before = folded[at - 1];
  const bool is_number = before >= u'0' && before <= u'9';
  const bool is_vowel = View(u"aeiou").find(before) != View::npos;
  if (!is_number && !is_small(before)) return 0;
  const std::size_t end = run_end(alphabet, folded, at + 1);
  const View suffix = folded.substr(at + 1, end - at - 1);
  const bool found = is_case(suffix) ||
                     ((is_number || !is_vowel) && follows_consonant(suffix)) ||
                     ((is_number || is_vowel) && follows_vowel(suffix));
  return found ? end : 0;
}

}  // namespace vecall

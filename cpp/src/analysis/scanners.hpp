#pragma once

// What the expressions of the Python package find, in one pass over a text each.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/alphabet.hpp"

namespace vecall {

using View = std::u16string_view;
using Strings = std::vector<std::u16string>;

constexpr bool is_small(char16_t letter) {
  return letter >= u'a' && letter <= u'z';
}
constexpr bool is_capital(char16_t letter) {
  return letter >= u'A' && letter <= u'Z';
}

// What Python's `str.split` splits at, among the letters that are covered.
constexpr bool is_space(char16_t letter) {
  return (letter >= 9 && letter <= 13) || (letter >= 28 && letter <= 32) ||
         letter == 0x85 || letter == 0xa0;
}

// The end of the run of word letters that begins at `at`.
std::size_t run_end(const Alphabet& alphabet, View text, std::size_t at);

// Calls found(run) with each run of word letters; the underscore is one.
template <class Found>
void for_each_run(const Alphabet& alphabet, View text, Found found) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (!alphabet.is(text[at], kWordLetter)) {
      ++at;
      continue;
    }
    const std::size_t end = run_end(alphabet, text, at);
    found(text.substr(at, end - at));
    at = end;
  }
}

// Words with a capital inside: OpenAIEmbedder.
bool may_be_camel(View text);
// Appends the parts of at least two letters of the words with a capital inside, in
// small letters. `text` has its capitals.
void append_camel_parts(const Alphabet& alphabet, View text, Strings& out);
// Appends what neighbouring parts of such a word give together, once each.
void append_joined_parts(const Alphabet& alphabet, View text, Strings& out);
// Appends the letters and the digits of words such as iphone15 and 30min. A word of
// `units` after digits is none.
void append_mixed_parts(const Alphabet& alphabet, View folded,
                        const std::set<std::u16string, std::less<>>& units,
                        Strings& out);

// Whether a text has a year, a day, a time of the day or a date of numbers.
bool has_time_number(const Alphabet& alphabet, View folded,
                     const std::set<std::u16string, std::less<>>& ordinals);

// Whether a text ends with a question mark and what may follow it.
bool asks(const Alphabet& alphabet, View text);

// The end of the Turkish suffix whose apostrophe is at `at`; 0 without one.
std::size_t suffix_end(const Alphabet& alphabet, View folded, std::size_t at);

}  // namespace vecall

#pragma once

// The letters that are analysed here: their normal forms and classes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vecall/text_analyzer.hpp"

namespace vecall {

enum LetterClass : std::uint16_t {
  kWordLetter = 1,  // \w, with the underscore
  kAlphabetic = 2,
  kDigit = 4,
  kClosing = 8,
  kApostrophe = 16,
  kVowel = 32,
  kTurkish = 64,
  kRomanian = 128,
  kCovered = 256,
  kSign = 512,  // + and #
};

class Alphabet {
 public:
  explicit Alphabet(const TextRules& rules);

  [[nodiscard]] std::uint16_t classes(char16_t letter) const noexcept {
    return letter < classes_.size() ? classes_[letter] : std::uint16_t{0};
  }
  [[nodiscard]] bool is(char16_t letter, unsigned wanted) const noexcept {
    return (classes(letter) & wanted) != 0;
  }
  // A letter or a digit: a part of a word, and no underscore.
  [[nodiscard]] bool in_word(char16_t letter) const noexcept {
    return letter != u'_' && is(letter, kWordLetter);
  }

  // Whether the letters of a text are all covered. If so, `letters` are they, `folded`
  // is their normal form and `found` the classes of all of both.
  bool read(const TextAnalyzer::Text& text, std::u16string& letters,
            std::u16string& folded, unsigned& found) const;

 private:
  template <class Unit>
  bool read(std::span<const Unit> text, std::u16string& letters, std::u16string& folded,
            unsigned& found) const;

  std::vector<std::uint16_t> classes_;
  std::vector<char16_t> folded_;        // 0: `longer_` has the normal form
  std::vector<std::u16string> longer_;  // of a few letters
};

}  // namespace vecall

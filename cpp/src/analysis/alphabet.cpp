#include "analysis/alphabet.hpp"

#include <algorithm>

#include "vecall/errors.hpp"

namespace vecall {

Alphabet::Alphabet(const TextRules& rules) {
  std::size_t size = 128;
  for (const auto& [letter, form] : rules.letters) {
    size = std::max(size, std::size_t{letter} + 1);
  }
  classes_.resize(size);
  folded_.resize(size);
  longer_.resize(size);
  for (const auto& [letter, form] : rules.letters) {
    classes_[letter] |= kCovered;
    if (form.size() == 1 && form[0] != 0) {
      folded_[letter] = form[0];
    } else {
      longer_[letter] = form;
    }
  }
  const auto mark = [&](const std::u16string& letters, std::uint16_t own) {
    for (const char16_t letter : letters) {
      if (is(letter, kCovered)) classes_[letter] |= own;
    }
  };
  mark(rules.word, kWordLetter);
  mark(rules.alphabetic, kAlphabetic);
  mark(rules.digits, kDigit);
  mark(rules.closing, kClosing);
  mark(rules.apostrophes, kApostrophe);
  mark(rules.vowels, kVowel);
  mark(rules.turkish, kTurkish);
  mark(rules.romanian, kRomanian);
  mark(u"+#", kSign);
  for (const auto& [letter, form] : rules.letters) {
    for (const char16_t part : form) {
      if (!is(part, kCovered)) {
        throw InvalidArgumentError("letters: a normal form has another letter");
      }
    }
    if (is(letter, kApostrophe) && is(letter, kWordLetter)) {
      throw InvalidArgumentError("apostrophes: one is a part of words");
    }
  }
}

bool Alphabet::read(const TextAnalyzer::Text& text, std::u16string& letters,
                    std::u16string& folded, unsigned& found) const {
  if (text.unit_bytes > sizeof(char16_t)) return false;
  if (text.unit_bytes == 1) {
    return read(std::span(static_cast<const unsigned char*>(text.units), text.size),
                letters, folded, found);
  }
  return read(std::span(static_cast<const char16_t*>(text.units), text.size), letters,
              folded, found);
}

template <class Unit>
bool Alphabet::read(std::span<const Unit> text, std::u16string& letters,
                    std::u16string& folded, unsigned& found) const {
  letters.resize(text.size());
  folded.resize(text.size());
  char16_t* out = folded.data();
  std::size_t at = 0;
  found = 0;
  for (; at < text.size(); ++at) {  // forms of one letter
    const char16_t letter = text[at];
    if (!is(letter, kCovered)) return false;
    found |= classes_[letter];
    letters[at] = letter;
    const char16_t form = folded_[letter];
    if (form == 0) break;
    found |= classes_[form];
    out[at] = form;
  }
  if (at == text.size()) return true;
  folded.resize(at);
  for (; at < text.size(); ++at) {
    const char16_t letter = text[at];
    if (!is(letter, kCovered)) return false;
    found |= classes_[letter];
    letters[at] = letter;
    if (folded_[letter] != 0) {
      folded.push_back(folded_[letter]);
      found |= classes_[folded_[letter]];
      continue;
    }
    folded += longer_[letter];
    for (const char16_t form : longer_[letter]) found |= classes_[form];
  }
  return true;
}

}  // namespace vecall

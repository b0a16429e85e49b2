#pragma once

// Splits a normal form into words: without apostrophes, elided words and Turkish
// suffixes; a letter alone keeps the signs after it (C++).

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/scanners.hpp"

namespace vecall {

struct Word {
  View text;
  bool is_alphabetic = false;
  bool is_number = false;
};

class WordSplitter {
 public:
  // Elided words, each with the languages that have it.
  using Elided = std::map<std::u16string, std::vector<std::size_t>, std::less<>>;

  WordSplitter(const Alphabet& alphabet, const Elided& elided);

  // `classes` are those of all letters. The words refer to `folded` and to this object.
  void split(View folded, unsigned classes, std::vector<Word>& words);

  // Calls found(elided, at, end) for each elided word before a vowel: its entry of the
  // table, where its apostrophe is, and the end of the word after that.
  template <class Found>
  void for_each_elided(View folded, Found found) const {
    for (std::size_t at = 0; at < folded.size(); ++at) {
      if (!alphabet_->is(folded[at], kApostrophe)) continue;
      const auto elided = elided_before(folded, at);
      if (elided == elided_->end()) continue;
      found(*elided, at, run_end(*alphabet_, folded, at + 1));
    }
  }

 private:
  [[nodiscard]] Elided::const_iterator elided_before(View folded, std::size_t at) const;
  void split_piece(View piece, std::vector<Word>& words);
  void split_plain(View plain, std::vector<Word>& words) const;
  template <class Cut>
  void rewrite(std::u16string& text, Cut cut);
  [[nodiscard]] bool joins_words(View text, std::size_t at) const;
  [[nodiscard]] std::size_t signed_end(View folded, std::size_t at) const;
  [[nodiscard]] std::size_t possessive_end(View text, std::size_t at) const;

  const Alphabet* alphabet_;
  const Elided* elided_;
  std::size_t longest_elided_ = 0;
  std::u16string cut_;
  std::u16string rewritten_;
  std::u16string kept_;  // what words of rewritten texts refer to
};

}  // namespace vecall

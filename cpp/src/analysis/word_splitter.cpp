#include "analysis/word_splitter.hpp"

#include <algorithm>

namespace vecall {

WordSplitter::WordSplitter(const Alphabet& alphabet, const Elided& elided)
    : alphabet_(&alphabet), elided_(&elided) {
  for (const auto& [word, languages] : elided) {
    longest_elided_ = std::max(longest_elided_, word.size());
  }
}

void WordSplitter::split(View folded, unsigned classes, std::vector<Word>& words) {
  words.clear();
  kept_.clear();
  kept_.reserve(folded.size());  // what is rewritten is shorter: the words stay valid
  if ((classes & kSign) == 0) {
    if ((classes & kApostrophe) == 0) {
      split_plain(folded, words);
    } else {
      split_piece(folded, words);
    }
    return;
  }
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < folded.size()) {
    const std::size_t end = signed_end(folded, at);
    if (end == 0) {
      ++at;
      continue;
    }
    split_piece(folded.substr(begin, at - begin), words);
    words.push_back({.text = folded.substr(at, end - at)});
    begin = at = std::max(end, possessive_end(folded, end));
  }
  split_piece(folded.substr(begin), words);
}

// A letter alone and its signs: C++, C#, A+.
std::size_t WordSplitter::signed_end(View folded, std::size_t at) const {
  if (!is_small(folded[at]) || (at > 0 && alphabet_->in_word(folded[at - 1])) ||
      at + 1 == folded.size() || !alphabet_->is(folded[at + 1], kSign)) {
    return 0;
  }
  const char16_t next = at + 2 < folded.size() ? folded[at + 2] : u' ';
  if (folded[at + 1] == u'+' && next == u'+') return at + 3;
  return next == u'+' || alphabet_->in_word(next) ? 0 : at + 2;
}

// The end of "'s" at `at`; 0 without it.
std::size_t WordSplitter::possessive_end(View text, std::size_t at) const {
  const bool found =
      at + 1 < text.size() && alphabet_->is(text[at], kApostrophe) &&
      text[at + 1] == u's' &&
      (at + 2 == text.size() || !alphabet_->is(text[at + 2], kWordLetter));
  return found ? at + 2 : 0;
}

bool WordSplitter::joins_words(View text, std::size_t at) const {
  return alphabet_->is(text[at], kApostrophe) && at > 0 && at + 1 < text.size() &&
         alphabet_->is(text[at - 1], kWordLetter) &&
         alphabet_->is(text[at + 1], kWordLetter);
}

WordSplitter::Elided::const_iterator WordSplitter::elided_before(View folded,
                                                                 std::size_t at) const {
  if (at + 2 >= folded.size() || !alphabet_->is(folded[at + 1], kVowel) ||
      !alphabet_->is(folded[at + 2], kWordLetter)) {
    return elided_->end();
  }
  std::size_t begin = at;
  while (begin > 0 && at - begin <= longest_elided_ &&
         alphabet_->is(folded[begin - 1], kWordLetter)) {
    --begin;
  }
  if (begin > 0 && alphabet_->is(folded[begin - 1], kWordLetter | kApostrophe)) {
    return elided_->end();
  }
  return elided_->find(folded.substr(begin, at - begin));
}

void WordSplitter::split_piece(View piece, std::vector<Word>& words) {
  cut_ = piece;
  for (char16_t& letter : cut_) {
    if (alphabet_->is(letter, kSign)) letter = u' ';
  }
  const View text = cut_;
  std::size_t at = 0;
  while (at < text.size() && !joins_words(text, at)) ++at;
  if (at < text.size()) {
    rewrite(cut_, [this](View all, std::size_t place, std::u16string& out) {
      const auto elided = elided_before(all, place);
      if (elided == elided_->end()) return std::size_t{0};
      out.resize(out.size() - elided->first.size());
      out.push_back(u' ');
      return place + 1;
    });
    rewrite(cut_, [this](View all, std::size_t place, std::u16string&) {
      const bool after_word = place > 0 && alphabet_->is(all[place - 1], kWordLetter);
      return after_word ? possessive_end(all, place) : 0;
    });
    rewrite(cut_, [this](View all, std::size_t place, std::u16string&) {
      return suffix_end(*alphabet_, all, place);
    });
    rewrite(cut_, [this](View all, std::size_t place, std::u16string&) {
      return joins_words(all, place) ? place + 1 : 0;
    });
  }
  const std::size_t begin = kept_.size();
  kept_ += cut_;
  split_plain(View(kept_).substr(begin), words);
}

// Writes a text anew: cut(text, at, out) returns the end of what is left out from an
// apostrophe on, or 0; it may change what was written before.
template <class Cut>
void WordSplitter::rewrite(std::u16string& text, Cut cut) {
  const View all = text;
  rewritten_.clear();
  std::size_t at = 0;
  while (at < all.size()) {
    const std::size_t end =
        alphabet_->is(all[at], kApostrophe) ? cut(all, at, rewritten_) : 0;
    if (end == 0) {
      rewritten_.push_back(all[at++]);
    } else {
      at = end;
    }
  }
  std::swap(text, rewritten_);
}

void WordSplitter::split_plain(View plain, std::vector<Word>& words) const {
  std::size_t at = 0;
  while (at < plain.size()) {
    const std::size_t begin = at;
    unsigned all = kAlphabetic | kDigit;
    while (at < plain.size() && alphabet_->in_word(plain[at])) {
      all &= alphabet_->classes(plain[at++]);
    }
    if (at == begin) {
      ++at;
      continue;
    }
    words.push_back({.text = plain.substr(begin, at - begin),
                     .is_alphabetic = (all & kAlphabetic) != 0,
                     .is_number = (all & kDigit) != 0});
  }
}

}  // namespace vecall

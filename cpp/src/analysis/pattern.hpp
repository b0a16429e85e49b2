#pragma once

// The regular expressions of named periods, as Python's `re` understands them:
// literals, classes, groups, alternatives, greedy repetition, what stands before and
// after. Matching backtracks; patterns are those of the package alone.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/alphabet.hpp"
#include "analysis/scanners.hpp"

namespace vecall {

// The names of groups.
enum class Group : std::uint8_t {
  kP,
  kC,
  kA,
  kK,
  kX,
  kY,
  kB,
  kU,
  kN,
  kF,
  kT,
  kD,
  kM,
  kD0,
  kD1,
  kSince,
  kBefore,
  kUntil,
  kAfter,
};
inline constexpr std::size_t kGroups = 19;

struct PatternMatch {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::size_t begin = 0;
  std::size_t end = 0;
  std::array<std::uint32_t, 2 * kGroups> places{};  // begin and end of each group

  [[nodiscard]] std::size_t begin_of(Group group) const {
    return places[2 * static_cast<std::size_t>(group)];
  }
  // Whether a group took part, be it with no letter.
  [[nodiscard]] bool has(Group group) const { return begin_of(group) != kNone; }
  // The text of a group; empty if it took no part.
  [[nodiscard]] View of(View text, Group group) const {
    if (!has(group)) return {};
    const std::size_t at = begin_of(group);
    return text.substr(at, places[2 * static_cast<std::size_t>(group) + 1] - at);
  }
};

class Pattern {
 public:
  // Throws InvalidArgumentError for a text that is no such expression.
  Pattern(const Alphabet& alphabet, View text);

  // The first match that begins at `from` or later.
  bool search(View text, std::size_t from, PatternMatch& match) const;
  // The match that begins at `at`.
  bool match(View text, std::size_t at, PatternMatch& match) const;
  [[nodiscard]] bool matches_all(View text) const;

 private:
  enum class Op : std::uint8_t {
    kLetter,
    kSet,
    kMany,
    kWords,
    kEdge,
    kEither,
    kGo,
    kPlace,
    kLook,
    kEnd,
    kDone
  };

  // Steps refer to others by their distance.
  struct Step {
    Op op = Op::kDone;
    bool negative = false;  // kLook: it must not match
    char16_t letter = 0;    // kLetter
    std::uint16_t index =
        0;  // of a set, of words or a place; kLook: letters before, 0 for after
    std::int32_t other =
        0;  // kEither: the second choice; kGo; kLook: behind it; kMany: the least
  };
  struct Set {
    bool has_words = false;
    bool has_digits = false;
    bool has_spaces = false;
    bool has_others = false;  // what is no part of a word
    std::vector<std::pair<char16_t, char16_t>> ranges = {};
  };
  // Words of which the first that fits is tried first, by their first letters.
  struct Words {
    std::vector<std::u16string> words;
    std::array<std::pair<std::uint16_t, std::uint16_t>, 128> of_letter{};
    std::pair<std::uint16_t, std::uint16_t> others{};
  };
  using Code = std::vector<Step>;
  class Parser;
  class Run;

  [[nodiscard]] bool contains(const Set& set, char16_t letter) const;
  [[nodiscard]] bool may_begin(View text, std::size_t at) const {
    return !begins_word_ || at == 0 || !alphabet_->is(text[at - 1], kWordLetter);
  }
  void find_first(std::size_t at, std::vector<bool>& seen);

  const Alphabet* alphabet_;
  Code code_;
  std::vector<Set> sets_;
  std::vector<Words> words_;
  std::bitset<256> first_;  // of the letters below 256, those that may begin a match
  // It begins where a word may begin: the steps of that test are left out.
  bool begins_word_ = false;
  std::size_t begin_ = 0;
  bool first_of_all_ = false;  // or any
};

}  // namespace vecall

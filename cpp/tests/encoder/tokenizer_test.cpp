// Texts split into pieces, against all ways to split them, and damaged models.

#include "encoder/tokenizer.hpp"

#include <doctest.h>

#include <limits>
#include <string>

#include "encoder_support.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

using Pieces = std::vector<std::int32_t>;

Pieces pieces_of(const Tokenizer& tokenizer, std::string_view text) {
  Pieces pieces;
  tokenizer.append_pieces(text, pieces);
  return pieces;
}

// A double array of one-byte keys alone, made by hand: "A" becomes "aa", "\t" a space
// and
// "\x01" nothing. The root's children are found at its offset with their byte, what
// they stand for at the offset of each.
std::string charsmap() {
  constexpr std::uint32_t kRoot = 256;                  // offset
  std::vector<std::uint32_t> units(1024, 0x8000'0000);  // labels that match no byte
  units[0] = kRoot << 10;
  std::string replacements;
  std::uint32_t leaf = 600;
  const auto add = [&](unsigned char byte, std::string_view replacement) {
    const std::uint32_t at = kRoot ^ byte;
    units[at] = (at ^ leaf) << 10 | 1U << 8 | byte;
    units[leaf++] = 0x8000'0000 | static_cast<std::uint32_t>(replacements.size());
    replacements.append(replacement).append(1, '\0');
  };
  add('A', "aa");
  add('\t', " ");
  add('\x01', "");
  const auto size = static_cast<std::uint32_t>(units.size() * sizeof(units[0]));
  std::string bytes(sizeof(size) + size, '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  std::memcpy(bytes.data() + sizeof(size), units.data(), size);
  return bytes + replacements;
}

constexpr std::string_view kSpace = "\xE2\x96\x81";

}  // namespace

TEST_CASE("a text is split so that the sum of the scores is the largest") {
  // Pieces 3 to 8.
  const std::vector<Scored> pieces = {{kSpace, -2}, {"a", -3},  {"b", -3},
                                      {"ab", -5},   {"ba", -2}, {"bab", -6}};
  const Tokenizer tokenizer(model_of(pieces));
  const auto score_of = [&](std::int32_t piece) {
    return piece == 0 ? -16.0
                      : double{pieces[static_cast<std::size_t>(piece) - 3].second};
  };
  for (const std::string text :
       {"a", "ab", "abab", "babab", "aabba", "bbabaab", "axb"}) {
    CAPTURE(text);
    const std::string all = std::string(kSpace) + text;
    // best(at): the largest sum of any way to split what begins there.
    const auto best = [&](const auto& self, std::size_t at) -> double {
      if (at == all.size()) return 0;
      double most = -std::numeric_limits<double>::infinity();
      for (const auto& [one, score] : pieces) {
        if (all.compare(at, one.size(), one) == 0) {
          most = std::max(most, double{score} + self(self, at + one.size()));
        }
      }
      if (all[at] == 'x') most = std::max(most, -16.0 + self(self, at + 1));
      return most;
    };
    const Pieces found = pieces_of(tokenizer, text);
    REQUIRE(found.size() > 2);
    CHECK(found.front() == Tokenizer::kBegin);
    CHECK(found.back() == Tokenizer::kEnd);
    double sum = 0;
    std::string joined;
    for (std::size_t i = 1; i + 1 < found.size(); ++i) {
      sum += score_of(found[i]);
      joined +=
          found[i] == 0 ? "x" : pieces[static_cast<std::size_t>(found[i]) - 3].first;
    }
    CHECK(joined == all);
    CHECK(sum == doctest::Approx(best(best, 0)));
  }
}

TEST_CASE("a text without a character is one unknown piece") {
  const Tokenizer tokenizer(model_of({{"a", -1}}));
  const Pieces unknown = {1, 0, 2};
  CHECK(pieces_of(tokenizer, "") == unknown);
  CHECK(pieces_of(tokenizer, "   ") == unknown);
  CHECK(pieces_of(tokenizer, kSpace) == unknown);
}

TEST_CASE("characters are replaced, and spaces are kept one at a time") {
  const Tokenizer tokenizer(model_of({{kSpace, -1}, {"a", -1}, {"b", -1}}, charsmap()));
  const Pieces expected = {1, 3, 4, 4, 3, 5, 2};  // " aa b"
  for (const std::string text : {"aa b", " aa  b ", "A b", "\tA\t b\t",
                                 "\x01"
                                 "A\x01 \x01 b",
                                 "aa b\x01"}) {
    CAPTURE(text);
    CHECK(pieces_of(tokenizer, text) == expected);
  }
}

TEST_CASE("of equal pieces the last one is found") {
  const Tokenizer tokenizer(model_of({{"a", -1}, {"a", -9}, {kSpace, -1}}));
  CHECK(pieces_of(tokenizer, "a") == Pieces{1, 5, 4, 2});
}

TEST_CASE("bytes that are no UTF-8 are unknown characters") {
  const Tokenizer tokenizer(model_of({{"a", -1}, {kSpace, -1}}));
  CHECK(pieces_of(tokenizer, "a\xFF\xE2\x96") == Pieces{1, 4, 3, 0, 0, 0, 2});
}

TEST_CASE("a damaged model is refused or read, but never beyond its end") {
  const std::string whole = model_of({{"ab", -1}, {"a", -2}, {kSpace, -1}}, charsmap());
  std::mt19937 engine(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    if (i % 3 == 0) bytes.resize(engine() % bytes.size());
    for (unsigned change = engine() % 4; change > 0 && !bytes.empty(); --change) {
      bytes[engine() % bytes.size()] = static_cast<char>(engine());
    }
    const std::string exact(bytes.data(), bytes.size());
    try {
      const Tokenizer tokenizer(exact);
      for (const char* text : {"ab A\t", "\xE2\x96\x81 \x01x", ""}) {
        for (const std::int32_t found : pieces_of(tokenizer, text)) {
          CHECK(found <
                static_cast<std::int32_t>(std::max<std::size_t>(tokenizer.size(), 3)));
        }
      }
    } catch (const CorruptDataError&) {
      continue;
    }
  }
  CHECK_THROWS_AS(Tokenizer(""), CorruptDataError);
  CHECK_THROWS_AS(Tokenizer(whole.substr(0, 20)), CorruptDataError);
}

}  // namespace vecall::testing

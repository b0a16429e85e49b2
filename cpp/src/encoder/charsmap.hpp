#pragma once

// The characters that a model of SentencePiece replaces before it splits a text: a
// double array (Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array
// Structure", 1989) in the layout of darts-clone, and the replacements that it leads
// to.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vecall {

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing
  // Bytes of a precompiled map: the size of the double array, the array, the
  // replacements, each of which ends in a zero. Throws CorruptDataError.
  explicit Charsmap(std::string_view bytes);

  // The text with replaced characters, U+2581 for each space, without spaces at the
  // ends or after a space, and with one U+2581 before. Empty if nothing is left.
  [[nodiscard]] std::string normalised(std::string_view text) const;

  [[nodiscard]] std::size_t nbytes() const noexcept;

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.units_, self.replacements_);
  }

 private:
  struct Prefix {
    std::string_view replacement;
    std::size_t length;  // of the text that it replaces
  };
  [[nodiscard]] Prefix prefix_of(std::string_view text) const noexcept;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// Bytes of the first character of a text, which is not empty; 1 where it is no UTF-8.
std::size_t character_length(std::string_view text) noexcept;

}  // namespace vecall

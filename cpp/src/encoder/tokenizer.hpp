#pragma once

// Splits a text into the pieces of a vocabulary so that the sum of their scores is the
// largest: the unigram model of SentencePiece (Kudo, "Subword Regularization", 2018).

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "encoder/charsmap.hpp"
#include "encoder/piece_trie.hpp"

namespace vecall {

class Tokenizer {
 public:
  static constexpr std::int32_t kUnknown = 0;
  static constexpr std::int32_t kBegin = 1;
  static constexpr std::int32_t kEnd = 2;

  Tokenizer() = default;  // to be read by each()
  // A model of SentencePiece in the layout of protocol buffers; nothing of it is kept.
  // Throws CorruptDataError.
  explicit Tokenizer(std::string_view model);

  // The number of pieces.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // Appends kBegin, the pieces of the text and kEnd. Linear in the length of the text.
  // Throws LimitExceededError for a text of 4 GiB.
  void append_pieces(std::string_view text, std::vector<std::int32_t>& out) const;

  [[nodiscard]] std::size_t nbytes() const noexcept;

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.charsmap_, self.trie_, self.size_, self.unknown_score_);
  }

 private:
  struct Parts;  // of a model
  explicit Tokenizer(const Parts& parts);

  Charsmap charsmap_;
  PieceTrie trie_;
  std::size_t size_ = 0;
  double unknown_score_ = 0;  // of a character that is no piece
};

}  // namespace vecall

#pragma once

// A text encoder: the multilingual Universal Sentence Encoder with convolutions over
// n-grams (Yang et al., "Multilingual Universal Sentence Encoder for Semantic
// Retrieval", 2019). It splits a text into pieces of words by the model of
// SentencePiece, and makes one vector of 512 values of them.
//
// The weights are multiples of one step a matrix, from -127 to 127 of them, and are
// kept as bytes. What is multiplied by them is rounded to 13 bits. All instruction sets
// give the same bits, and a text has the same vector alone and among others.
//
// Immutable after construction: every method may be called from any thread at any time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vecall/wait_hook.hpp"

namespace vecall {

class Encoder {
 public:
  static constexpr std::size_t kDim = 512;

  // The arrays of the model by their names: `lo` and `scale` (17,), the steps of the
  // table; `eps` (1,); and for n = 2, 3, 5 `proj{n}` (512, 256), `proj_b{n}`,
  // `ln_g{n}`, `ln_b{n}` (256,), `w1_{n}`, `w2_{n}` (256 n, 256), `b1_{n}`, `b2_{n}`
  // (256,); `ln_g`, `ln_b` (1280,), `cnn_W` (1280, 512), `cnn_b` (512,), `d0`, `p1`
  // (512, 320), `d1` (320, 320), `d2`, `p3` (320, 512) and `d3` (512, 512).
  using Arrays = std::map<std::string, std::span<const float>, std::less<>>;

  // `pieces` is a model of SentencePiece, in the layout of protocol buffers. Row i of
  // `table` (rows, 512), values up to 127, belongs to piece i; it is not copied and has
  // to outlive the encoder. Throws IncompatibleDataError for arrays of other sizes, or
  // values that are no such multiples, CorruptDataError for pieces that cannot be read,
  // and ConfigError for a bad VECALL_ISA.
  Encoder(std::string_view pieces, std::span<const std::uint8_t> table,
          const Arrays& arrays);
  // From what `prepared` returned in the same build, and the same table: in a tenth of
  // the time. Throws CorruptDataError if one of them differs.
  Encoder(std::string_view prepared, std::span<const std::uint8_t> table);
  ~Encoder();
  Encoder(Encoder&& other) noexcept;
  Encoder& operator=(Encoder&& other) noexcept;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Writes the vector of each text (UTF-8), of norm 1, to `out` (n, kDim). The work and
  // the memory grow with the length of the texts. REQUIRES: out.size() == n * kDim.
  void encode(std::span<const std::string_view> texts, std::span<float> out,
              PauseHook pause = {}) const;

  // The pieces of a text: 1, which begins it, those of its words, and 2.
  [[nodiscard]] std::vector<std::int32_t> pieces_of(std::string_view text) const;

  // What the constructor made of the pieces and the arrays, as bytes.
  [[nodiscard]] std::string prepared() const;

  // Memory that the encoder holds, without the table.
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace vecall

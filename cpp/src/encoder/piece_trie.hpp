#pragma once

// The pieces of a vocabulary, found by what a text begins with. The children of a node
// lie one after another, by their byte.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vecall {

class PieceTrie {
 public:
  static constexpr std::int32_t kNone = -1;

  // Of equal pieces the last one counts. An empty piece is never found.
  explicit PieceTrie(std::span<const std::string_view> pieces);

  // Calls found(length, piece) for each piece that the text begins with, the shortest
  // first.
  template <class Found>
  void each_prefix(std::string_view text, Found found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<std::uint8_t>(text[i]));
      if (node == 0) return;
      if (piece_[node] != kNone) found(i + 1, piece_[node]);
    }
  }

  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  // 0, the root, where there is none.
  [[nodiscard]] std::uint32_t child(std::uint32_t node,
                                    std::uint8_t byte) const noexcept {
    if (node == 0) return of_root_[byte];
    const std::uint32_t end = first_child_[node + 1];
    for (std::uint32_t at = first_child_[node]; at < end; ++at) {
      if (label_[at] >= byte) return label_[at] == byte ? at : 0;
    }
    return 0;
  }

  std::vector<std::uint8_t> label_;
  std::vector<std::uint32_t> first_child_;
  std::vector<std::int32_t> piece_;
  std::uint32_t of_root_[256] = {};
};

}  // namespace vecall

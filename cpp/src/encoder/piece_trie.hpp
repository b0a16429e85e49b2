#pragma once

// The pieces of a vocabulary, found by what a text begins with. The children of a node
// lie one after another, by their byte.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace vecall {

class PieceTrie {
 public:
  static constexpr std::int32_t kNone = -1;

  PieceTrie() = default;  // finds nothing
  // Of equal pieces the last one counts. An empty piece is never found.
  PieceTrie(std::span<const std::string_view> pieces, std::span<const float> scores);

  // Calls found(length, piece, score) for each piece that the text begins with, the
  // shortest first.
  template <class Found>
  void each_prefix(std::string_view text, Found found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<std::uint8_t>(text[i]));
      if (node == 0) return;
      const Node& at = nodes_[node];
      if (at.piece != kNone) found(i + 1, at.piece, at.score);
    }
  }

  [[nodiscard]] std::size_t nbytes() const noexcept;

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.nodes_, self.label_, self.of_root_);
  }

 private:
  // 0, the root, where there is none.
  [[nodiscard]] std::uint32_t child(std::uint32_t node,
                                    std::uint8_t byte) const noexcept {
    if (node == 0) return of_root_[byte];
    const std::uint32_t first = nodes_[node].first_child;
    const std::uint8_t* const labels = label_.data() + first;
    const void* const found =
        std::memchr(labels, byte, nodes_[node + 1].first_child - first);
    if (found == nullptr) return 0;
    return first +
           static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(found) - labels);
  }

  struct Node {
    std::uint32_t first_child = 0;  // its last one is before the next node's first
    std::int32_t piece = kNone;
    float score = 0;
  };

  std::vector<Node> nodes_;  // and one more
  std::vector<std::uint8_t> label_;
  std::uint32_t of_root_[256] = {};
};

}  // namespace vecall

#include "encoder/piece_trie.hpp"

#include <algorithm>
#include <numeric>

namespace vecall {

namespace {

// Pieces, in order, that share the bytes that lead to a node.
struct Range {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

PieceTrie::PieceTrie(std::span<const std::string_view> pieces,
                     std::span<const float> scores) {
  std::vector<std::int32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [pieces](std::int32_t a, std::int32_t b) {
    const int compared = pieces[static_cast<std::size_t>(a)].compare(
        pieces[static_cast<std::size_t>(b)]);
    return compared != 0 ? compared < 0 : a < b;
  });
  const auto piece_at = [&](std::size_t i) {
    return pieces[static_cast<std::size_t>(order[i])];
  };
  std::vector<Range> ranges = {{0, order.size(), 0}};  // of nodes, in breadth
  label_.push_back(0);
  for (std::size_t node = 0; node < ranges.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    Node& made = nodes_.emplace_back();
    made.first_child = static_cast<std::uint32_t>(ranges.size());
    for (; at < end && piece_at(at).size() == depth; ++at) {
      made.piece = order[at];
      made.score = scores[static_cast<std::size_t>(order[at])];
    }
    while (at < end) {
      const auto byte = static_cast<std::uint8_t>(piece_at(at)[depth]);
      const std::size_t begin = at;
      while (at < end && static_cast<std::uint8_t>(piece_at(at)[depth]) == byte) ++at;
      if (node == 0) of_root_[byte] = static_cast<std::uint32_t>(ranges.size());
      ranges.push_back({begin, at, depth + 1});
      label_.push_back(byte);
    }
  }
  nodes_.emplace_back().first_child = static_cast<std::uint32_t>(ranges.size());
}

std::size_t PieceTrie::nbytes() const noexcept {
  return nodes_.size() * (sizeof(Node) + sizeof(label_[0]));
}

}  // namespace vecall

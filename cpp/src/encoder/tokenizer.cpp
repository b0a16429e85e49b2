#include "encoder/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

[[noreturn]] void refuse() {
  throw CorruptDataError("pieces: the model of SentencePiece is damaged");
}

// The fields of a message of protocol buffers, one after another.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (left_.empty()) return false;
    const std::uint64_t tag = take_number();
    number_ = tag >> 3;
    switch (tag & 7) {
      case 0:
        take_number();
        value_ = {};
        break;
      case 1:
        value_ = take(8);
        break;
      case 2:
        value_ = take(take_number());
        break;
      case 5:
        value_ = take(4);
        break;
      default:
        refuse();
    }
    return true;
  }
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] std::string_view value() const noexcept { return value_; }

 private:
  std::uint64_t take_number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return number;
    }
    refuse();
  }
  std::string_view take(std::uint64_t size) {
    if (size > left_.size()) refuse();
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
  std::uint64_t number_ = 0;
  std::string_view value_;
};

constexpr std::uint64_t kPieces = 1;  // fields of a model
constexpr std::uint64_t kNormaliser = 3;
constexpr std::uint64_t kText = 1;  // of a piece
constexpr std::uint64_t kScore = 2;
constexpr std::uint64_t kCharsmap = 2;  // of a normaliser

}  // namespace

struct Tokenizer::Parts {
  std::string_view charsmap;
  std::vector<std::string_view> pieces;
  std::vector<float> scores;

  explicit Parts(std::string_view model) {
    Fields fields(model);
    while (fields.next()) {
      if (fields.number() == kPieces) add_piece(fields.value());
      if (fields.number() == kNormaliser && charsmap.empty()) {
        Fields inner(fields.value());
        while (inner.next()) {
          if (inner.number() == kCharsmap) charsmap = inner.value();
        }
      }
    }
    if (pieces.size() <= kEnd ||
        pieces.size() > std::numeric_limits<std::int32_t>::max()) {
      refuse();
    }
  }

  void add_piece(std::string_view message) {
    Fields fields(message);
    float score = 0;
    std::string_view text;
    while (fields.next()) {
      if (fields.number() == kText) text = fields.value();
      if (fields.number() != kScore) continue;
      if (fields.value().size() != sizeof(score)) refuse();
      std::memcpy(&score, fields.value().data(), sizeof(score));
      if (!std::isfinite(score)) refuse();
    }
    pieces.push_back(text);
    scores.push_back(score);
  }
};

Tokenizer::Tokenizer(std::string_view model) : Tokenizer(Parts(model)) {}

Tokenizer::Tokenizer(const Parts& parts)
    : charsmap_(parts.charsmap.empty() ? Charsmap() : Charsmap(parts.charsmap)),
      trie_(parts.pieces, parts.scores),
      size_(parts.pieces.size()),
      unknown_score_(
          double{*std::min_element(parts.scores.begin(), parts.scores.end())} - 10.0) {}

void Tokenizer::append_pieces(std::string_view text,
                              std::vector<std::int32_t>& out) const {
  const std::string normalised = charsmap_.normalised(text);
  const std::string_view all = normalised;
  if (all.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw LimitExceededError("texts: one is longer than 4 GiB");
  }
  out.push_back(kBegin);
  if (all.empty()) {
    out.insert(out.end(), {kUnknown, kEnd});
    return;
  }
  // The best pieces up to each byte: their score, and where the last one begins.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    std::uint32_t begin = 0;
    std::int32_t piece = kUnknown;
  };
  std::vector<Best> best(all.size() + 1);
  best[0].score = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::string_view rest = all.substr(at);
    const std::size_t length = character_length(rest);
    const double before = best[at].score;
    bool is_known = false;  // the character alone
    const auto offer = [&](std::size_t end, double score, std::int32_t piece) {
      if (score > best[end].score) {
        best[end] = {score, static_cast<std::uint32_t>(at), piece};
      }
    };
    trie_.each_prefix(rest, [&](std::size_t size, std::int32_t piece, float score) {
      offer(at + size, before + double{score}, piece);
      is_known |= size == length;
    });
    if (!is_known) offer(at + length, before + unknown_score_, kUnknown);
    at += length;
  }
  const std::size_t first = out.size();
  for (std::size_t end = all.size(); end > 0; end = best[end].begin) {
    out.push_back(best[end].piece);
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  out.push_back(kEnd);
}

std::size_t Tokenizer::nbytes() const noexcept {
  return charsmap_.nbytes() + trie_.nbytes();
}

}  // namespace vecall

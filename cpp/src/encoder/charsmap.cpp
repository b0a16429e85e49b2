#include "encoder/charsmap.hpp"

#include <cstring>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

// A unit of the double array: a label, whether a value ends here, an offset.
constexpr std::uint32_t label_of(std::uint32_t unit) noexcept {
  return unit & 0x8000'00FF;
}
constexpr bool has_leaf(std::uint32_t unit) noexcept {
  return (unit >> 8 & 1) != 0;
}
constexpr std::uint32_t value_of(std::uint32_t unit) noexcept {
  return unit & 0x7FFF'FFFF;
}
constexpr std::size_t offset_of(std::uint32_t unit) noexcept {
  return std::size_t{unit >> 10} << ((unit & 0x200) >> 6);
}

}  // namespace

std::size_t character_length(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text[0]);
  std::size_t length = 1;
  if (first >> 5 == 0x6) length = 2;
  if (first >> 4 == 0xE) length = 3;
  if (first >> 3 == 0x1E) length = 4;
  if (length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 1;
  }
  return length;
}

Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  if (size == 0 || size % sizeof(std::uint32_t) != 0 ||
      size > bytes.size() - sizeof(size)) {
    throw CorruptDataError("pieces: the map of characters is damaged");
  }
  units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
  replacements_ = bytes.substr(sizeof(size) + size);
  if (replacements_.empty() || replacements_.back() != '\0') replacements_ += '\0';
}

// The longest key that the text begins with, or its first character.
Charsmap::Prefix Charsmap::prefix_of(std::string_view text) const noexcept {
  std::size_t length = 0;
  std::size_t value = 0;
  std::size_t node = units_.empty() ? 0 : offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (has_leaf(unit) && node < units_.size()) {
      length = i + 1;
      value = value_of(units_[node]);
    }
  }
  if (length == 0 || value >= replacements_.size()) {
    const std::size_t whole = character_length(text);
    return {text.substr(0, whole), whole};
  }
  return {replacements_.data() + value, length};  // up to its zero
}

std::string Charsmap::normalised(std::string_view text) const {
  std::size_t at = 0;
  while (at < text.size()) {
    const Prefix prefix = prefix_of(text.substr(at));
    if (prefix.replacement != " ") break;
    at += prefix.length;
  }
  if (at == text.size()) return {};
  std::string out(kSpace);
  out.reserve(text.size() - at + kSpace.size());
  bool is_after_space = true;
  while (at < text.size()) {
    auto [part, length] = prefix_of(text.substr(at));
    at += length;
    while (is_after_space && part.starts_with(' ')) part.remove_prefix(1);
    for (const char byte : part) {
      if (byte == ' ') {
        out += kSpace;
      } else {
        out += byte;
      }
    }
    if (!part.empty()) is_after_space = part.back() == ' ';
  }
  while (out.ends_with(kSpace)) out.resize(out.size() - kSpace.size());
  return out;
}

std::size_t Charsmap::nbytes() const noexcept {
  return units_.size() * sizeof(std::uint32_t) + replacements_.size();
}

}  // namespace vecall

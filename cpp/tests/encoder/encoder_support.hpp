#pragma once

// Small models of SentencePiece, written field by field, and encoders of random
// weights.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vecall/encoder.hpp"

namespace vecall::testing {

inline std::string number(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>((value & 0x7F) | 0x80);
  }
  return bytes + static_cast<char>(value);
}

// A field of bytes, in the layout of protocol buffers.
inline std::string field(std::uint64_t id, std::string_view value) {
  return number(id << 3 | 2) + number(value.size()) + std::string(value);
}

inline std::string piece(std::string_view text, float score) {
  std::string bytes(sizeof(score), '\0');
  std::memcpy(bytes.data(), &score, sizeof(score));
  return field(
      1, field(1, text) + number(2 << 3 | 5) + bytes + number(3 << 3) + number(1));
}

using Scored = std::pair<std::string_view, float>;

// The pieces follow the three that have a meaning of their own.
inline std::string model_of(const std::vector<Scored>& pieces,
                            std::string_view charsmap = {}) {
  std::string model = piece("<unk>", 0) + piece("<s>", 0) + piece("</s>", 0);
  for (const auto& [text, score] : pieces) model += piece(text, score);
  if (!charsmap.empty()) model += field(3, field(1, "test") + field(2, charsmap));
  return model;
}

// Weights of the right sizes: multiples of a step for what is a matrix.
struct RandomWeights {
  std::vector<std::uint8_t> table;
  std::map<std::string, std::vector<float>> values;

  explicit RandomWeights(std::size_t pieces) : table(pieces * Encoder::kDim) {
    for (auto& byte : table) byte = static_cast<std::uint8_t>(engine_() % 64);
    add("lo", 17, -4, 0);
    add("scale", 17, 0.1F, 0.2F);
    add("eps", 1, 1e-12F, 1e-12F);
    add_matrix("cnn_W", 1280 * 512);
    for (const char* name : {"d0", "p1"}) add_matrix(name, 512 * 320);
    for (const char* name : {"d2", "p3"}) add_matrix(name, 320 * 512);
    add_matrix("d1", 320 * 320);
    add_matrix("d3", 512 * 512);
    add("ln_g", 1280, 0.5F, 1.5F);
    add("ln_b", 1280, -0.5F, 0.5F);
    add("cnn_b", 512, -0.1F, 0.1F);
    for (const std::size_t order : {2U, 3U, 5U}) {
      const std::string end = std::to_string(order);
      add_matrix("proj" + end, 512 * 256);
      add_matrix("w1_" + end, order * 256 * 256);
      add_matrix("w2_" + end, order * 256 * 256);
      for (const char* name : {"proj_b", "ln_g", "ln_b", "b1_", "b2_"}) {
        add(name + end, 256, -0.5F, 0.5F);
      }
    }
  }

  [[nodiscard]] Encoder::Arrays arrays() const {
    Encoder::Arrays all;
    for (const auto& [name, array] : values) all.emplace(name, array);
    return all;
  }
  Encoder encoder(std::string_view model) const { return {model, table, arrays()}; }

 private:
  void add(const std::string& name, std::size_t count, float low, float high) {
    auto& array = values[name];
    for (std::size_t i = 0; i < count; ++i) {
      array.push_back(low + (high - low) * static_cast<float>(engine_() % 1024) / 1024);
    }
  }
  void add_matrix(const std::string& name, std::size_t count) {
    auto& array = values[name];
    for (std::size_t i = 0; i < count; ++i) {
      array.push_back(static_cast<float>(static_cast<int>(engine_() % 255) - 127) *
                      0.0007F);
    }
    array[0] = 127 * 0.0007F;
  }

  std::mt19937 engine_{7};
};

}  // namespace vecall::testing

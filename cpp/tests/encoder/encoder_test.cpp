// An encoder of random weights: what its vectors do not depend on, and what it refuses.
// tests/engine/test_encoder.py holds them against a forward pass in double.

#include "vecall/encoder.hpp"

#include <doctest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "encoder_support.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

const std::string& letters() {
  static const std::string kModel = [] {
    static std::vector<std::string> texts;
    for (char letter = 'a'; letter <= 'z'; ++letter) texts.emplace_back(1, letter);
    std::vector<Scored> pieces = {{"\xE2\x96\x81", -1.0F}};
    for (const auto& text : texts) pieces.emplace_back(text, -2.0F);
    return model_of(pieces);
  }();
  return kModel;
}

const RandomWeights& weights() {
  static const RandomWeights kWeights(30);
  return kWeights;
}

std::vector<float> encode(const Encoder& encoder,
                          const std::vector<std::string_view>& texts) {
  std::vector<float> out(texts.size() * Encoder::kDim);
  encoder.encode(texts, out);
  return out;
}

std::string letters_of(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += static_cast<char>('a' + (i * i + i / 7) % 26);
  }
  return text;
}

}  // namespace

TEST_CASE("a text has the same vector alone and among others") {
  const Encoder encoder = weights().encoder(letters());
  std::vector<std::string> texts;
  for (const std::size_t size : {0U, 1U, 2U, 40U, 125U, 126U, 127U, 250U, 1000U, 3U}) {
    for (int i = 0; i < 4; ++i) texts.push_back(letters_of(size + texts.size() % 2));
  }
  const std::vector<std::string_view> all(texts.begin(), texts.end());
  const auto together = encode(encoder, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].size());
    const std::vector<float> of_all(together.begin() + i * Encoder::kDim,
                                    together.begin() + (i + 1) * Encoder::kDim);
    CHECK(encode(encoder, {all[i]}) == of_all);
    double squares = 0;
    for (const float value : of_all) squares += double{value} * value;
    CHECK(squares == doctest::Approx(1.0));
  }
  CHECK(encode(encoder, {}).empty());
}

TEST_CASE("threads that share an encoder get the same bits") {
  const Encoder encoder = weights().encoder(letters());
  const auto expected = encode(encoder, {"one", "two"});
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (auto& out : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) out = encode(encoder, {"one", "two"});
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& out : found) CHECK(out == expected);
}

TEST_CASE("what a pause throws ends the call") {
  const Encoder encoder = weights().encoder(letters());
  const std::string text = letters_of(2000);
  const std::vector<std::string_view> texts = {text};
  std::vector<float> out(Encoder::kDim);
  int pauses = 0;
  auto pause = [&] {
    if (++pauses == 3) throw ConfigError("enough");
  };
  CHECK_THROWS_AS(encoder.encode(texts, out, PauseHook(pause)), ConfigError);
  CHECK(pauses == 3);
}

TEST_CASE("what was prepared gives the same bits, or is refused") {
  const Encoder encoder = weights().encoder(letters());
  const std::string prepared = encoder.prepared();
  const std::span<const std::uint8_t> table = weights().table;
  const Encoder again(prepared, table);
  const std::string text = letters_of(300);
  CHECK(encode(again, {"one", text, ""}) == encode(encoder, {"one", text, ""}));
  CHECK(again.nbytes() == encoder.nbytes());
  CHECK(again.prepared() == prepared);
  for (std::size_t at = 0; at < prepared.size(); at += prepared.size() / 97) {
    CAPTURE(at);
    std::string changed = prepared;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    CHECK_THROWS_AS(Encoder(changed, table), CorruptDataError);
    CHECK_THROWS_AS(Encoder(std::string_view(prepared).substr(0, at), table),
                    CorruptDataError);
  }
  CHECK_THROWS_AS(Encoder(prepared, table.first(table.size() - 512)), CorruptDataError);
}

TEST_CASE("weights that do not fit are refused") {
  const auto refused = [](const std::string& name, auto change) {
    CAPTURE(name);
    RandomWeights other = weights();
    change(other.values[name]);
    CHECK_THROWS_AS(other.encoder(letters()), IncompatibleDataError);
  };
  for (const auto& [name, values] : weights().values) {
    refused(name, [](auto& array) { array.clear(); });
    refused(name, [](auto& array) { array.push_back(0); });
    refused(name, [](auto& array) {
      array.back() = std::numeric_limits<float>::quiet_NaN();
    });
  }
  for (const char* name : {"proj3", "w1_2", "w2_5", "cnn_W", "d0", "d3", "p1"}) {
    refused(name, [](auto& array) { array.back() = 0.5F * 0.0007F; });
  }
  RandomWeights few(29);
  CHECK_THROWS_AS(few.encoder(letters()), IncompatibleDataError);
  RandomWeights high = weights();
  high.table.back() = 128;
  CHECK_THROWS_AS(high.encoder(letters()), IncompatibleDataError);
  CHECK_THROWS_AS(weights().encoder("no model"), CorruptDataError);
}

}  // namespace vecall::testing

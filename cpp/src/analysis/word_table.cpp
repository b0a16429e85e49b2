#include "analysis/word_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "sync/fork_gate.hpp"

namespace vecall {

namespace {

constexpr std::size_t kFewestSlots = 4096;

std::uint64_t mixed(std::uint64_t a) noexcept {
  a = (a ^ (a >> 32)) * 0xd6e8'feb8'6659'fd93;
  a = (a ^ (a >> 32)) * 0xd6e8'feb8'6659'fd93;
  return a ^ (a >> 32);
}

std::uint64_t random_key() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace

std::uint64_t WordHash::operator()(std::u16string_view word) const noexcept {
  constexpr std::size_t kUnits = sizeof(std::uint64_t) / sizeof(char16_t);
  static const std::uint64_t key = random_key();
  std::uint64_t state = key ^ word.size();
  for (; word.size() > kUnits; word.remove_prefix(kUnits)) {
    std::uint64_t units = 0;
    std::memcpy(&units, word.data(), sizeof(units));
    state = mixed(state ^ units) + key;
  }
  std::uint64_t units = 0;
  for (const char16_t unit : word) units = (units << 16) | unit;
  return mixed(state ^ units);
}

const WordEntry* WordTable::Words::find(std::u16string_view word) const noexcept {
  return slot_of(word, WordHash()(word)).load(std::memory_order_acquire);
}

WordTable::Words::Slot& WordTable::Words::slot_of(std::u16string_view word,
                                                  std::uint64_t hash) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const WordEntry* const entry = slots_[at].load(std::memory_order_acquire);
    if (entry == nullptr || (entry->hash == hash && entry->word == word)) {
      return slots_[at];
    }
  }
}

WordTable::WordTable(Flagged flagged, std::size_t most)
    : flagged_(std::move(flagged)), most_(flagged_.size() + most) {
  ForkGate::shared();  // forks are seen from the first lock on
  const MutexLock lock(mutex_);
  begin_anew();
}

std::shared_ptr<const WordTable::Words> WordTable::now() const {
  const auto pass = ForkGate::enter();
  const MutexLock lock(mutex_);
  return words_;
}

void WordTable::set(std::u16string_view word, std::size_t language,
                    std::uint64_t term) {
  const std::uint64_t hash = WordHash()(word);
  const auto pass = ForkGate::enter();
  const MutexLock lock(mutex_);
  WordEntry* entry = words_->slot_of(word, hash).load(std::memory_order_relaxed);
  if (entry == nullptr) {
    if (words_->entries_->size() >= most_) begin_anew();
    entry = &add(word, hash);
  }
  entry->terms[language].store(term, std::memory_order_relaxed);
}

void WordTable::begin_anew() {
  const std::size_t slots = std::bit_ceil(2 * (flagged_.size() + 1));
  std::shared_ptr<Words> words(new Words(std::max(kFewestSlots, slots)));
  words->entries_ = std::make_shared<std::deque<WordEntry>>();
  for (const auto& [word, flags] : flagged_) {
    const std::uint64_t hash = WordHash()(word);
    WordEntry& entry = words->entries_->emplace_back(word, hash, flags);
    words->slot_of(word, hash).store(&entry, std::memory_order_relaxed);
  }
  words_ = std::move(words);
}

WordEntry& WordTable::add(std::u16string_view word, std::uint64_t hash) {
  if (words_->slots_.size() < 2 * (words_->entries_->size() + 1)) {
    std::shared_ptr<Words> larger(new Words(2 * words_->slots_.size()));
    larger->entries_ = words_->entries_;
    for (WordEntry& entry : *larger->entries_) {
      larger->slot_of(entry.word, entry.hash).store(&entry, std::memory_order_relaxed);
    }
    words_ = std::move(larger);
  }
  WordEntry& entry = words_->entries_->emplace_back(word, hash, std::uint16_t{0});
  words_->slot_of(word, hash).store(&entry, std::memory_order_release);
  return entry;
}

std::size_t WordTable::nbytes() const {
  const auto pass = ForkGate::enter();
  const MutexLock lock(mutex_);
  return words_->slots_.size() * sizeof(Words::Slot) +
         words_->entries_->size() * sizeof(WordEntry);
}

}  // namespace vecall

#pragma once

// What is known of words: flags, and a term for each language. Threads look words up
// without a lock, in the table as it was when they began. One that is full begins anew.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sync/mutex.hpp"

namespace vecall {

inline constexpr std::size_t kTermsAWord = 8;  // seven languages, and names
// Not yet known; no term of a word has the highest bit.
inline constexpr std::uint64_t kUnknownTerm = ~std::uint64_t{0};

struct WordEntry {
  WordEntry(std::u16string_view text, std::uint64_t text_hash, std::uint16_t its_flags)
      : word(text), hash(text_hash), flags(its_flags) {
    for (auto& term : terms) term.store(kUnknownTerm, std::memory_order_relaxed);
  }

  const std::u16string word;
  const std::uint64_t hash;
  const std::uint16_t flags;
  std::array<std::atomic<std::uint64_t>, kTermsAWord> terms{};
};

// Hashes words with a key of the process: nobody can choose words that collide.
struct WordHash {
  std::uint64_t operator()(std::u16string_view word) const noexcept;
};

class WordTable {
 public:
  using Flagged = std::vector<std::pair<std::u16string, std::uint16_t>>;

  // The table at one time; words do not leave it.
  class Words {
   public:
    // Null for a word that is not in it.
    [[nodiscard]] const WordEntry* find(std::u16string_view word) const noexcept;

   private:
    friend class WordTable;
    using Slot = std::atomic<WordEntry*>;

    explicit Words(std::size_t slots) : slots_(slots) {}
    [[nodiscard]] Slot& slot_of(std::u16string_view word,
                                std::uint64_t hash) const noexcept;

    mutable std::vector<Slot> slots_;  // a power of two, at most half of them used
    std::shared_ptr<std::deque<WordEntry>> entries_;
  };

  // `flagged` are the words that the table always has; it has at most `most` more.
  WordTable(Flagged flagged, std::size_t most);

  [[nodiscard]] std::shared_ptr<const Words> now() const;
  void set(std::u16string_view word, std::size_t language, std::uint64_t term);
  [[nodiscard]] std::size_t nbytes() const;

 private:
  void begin_anew() VECALL_REQUIRES(mutex_);
  WordEntry& add(std::u16string_view word, std::uint64_t hash) VECALL_REQUIRES(mutex_);

  const Flagged flagged_;
  const std::size_t most_;
  mutable Mutex mutex_;  // taken within the fork gate
  std::shared_ptr<Words> words_ VECALL_GUARDED_BY(mutex_);
};

}  // namespace vecall

#pragma once

// Small numbers for the names of sessions, authors and kinds, which arrive as 64-bit
// hashes. Number 0 is "no name". A number is valid as long as a row has it. Not
// thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "vecall/assert.hpp"

namespace vecall {

class LabelDictionary {
 public:
  using Hash = std::uint64_t;
  using Number = std::uint32_t;

  static constexpr Number kNone = 0;
  static constexpr Number kUnknown = static_cast<Number>(-1);

  // The number of a name, counted once more; kNone for hash 0. Strong guarantee.
  Number acquire(Hash hash) {
    if (hash == 0) return kNone;
    const auto found = numbers_.find(hash);
    if (found != numbers_.end()) {
      ++entries_[found->second - 1].uses;
      return found->second;
    }
    Number number = 0;
    if (free_.empty()) {
      if (free_.capacity() <= entries_.size()) {
        free_.reserve(2 * entries_.size() + 1);  // release() cannot fail
      }
      entries_.push_back({hash, 1});
      number = static_cast<Number>(entries_.size());
    } else {
      number = free_.back();
    }
    try {
      numbers_.emplace(hash, number);
    } catch (...) {
      if (free_.empty()) entries_.pop_back();
      throw;
    }
    if (!free_.empty()) free_.pop_back();
    entries_[number - 1] = {hash, 1};
    return number;
  }

  // True if that was the last row of the name.
  bool release(Number number) noexcept {
    if (number == kNone || --entries_[number - 1].uses > 0) return false;
    numbers_.erase(entries_[number - 1].hash);
    free_.push_back(number);
    return true;
  }

  // kUnknown where no row has the name; kNone for hash 0.
  [[nodiscard]] Number find(Hash hash) const {
    if (hash == 0) return kNone;
    const auto found = numbers_.find(hash);
    return found == numbers_.end() ? kUnknown : found->second;
  }
  // REQUIRES: a row has the number, or it is kNone.
  [[nodiscard]] Hash hash(Number number) const noexcept {
    VECALL_ASSERT(number == kNone ||
                  (number <= entries_.size() && entries_[number - 1].uses > 0));
    return number == kNone ? 0 : entries_[number - 1].hash;
  }
  // Numbers that were ever given, so that callers can keep a column by number.
  [[nodiscard]] std::size_t numbers() const noexcept { return entries_.size() + 1; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return entries_.capacity() * sizeof(Entry) + free_.capacity() * sizeof(Number) +
           numbers_.size() * 32 + numbers_.bucket_count() * sizeof(void*);
  }

 private:
  struct Entry {
    Hash hash;
    std::uint32_t uses;
  };

  std::unordered_map<Hash, Number> numbers_;
  std::vector<Entry> entries_;
  std::vector<Number> free_;
};

}  // namespace vecall

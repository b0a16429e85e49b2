#pragma once

// The slots that hold one term, sorted, in blocks of which a change moves one: adding
// or removing a slot costs the logarithm of their number. Most terms have few holders,
// which lie in one array. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vecall/types.hpp"

namespace vecall {

struct Posting {
  Slot slot;
  std::uint32_t count;  // how often the slot holds the term
};

class PostingList {
 public:
  PostingList() = default;
  // Takes over postings that are sorted by slot, each slot once.
  explicit PostingList(std::span<const Posting> sorted);

  // Strong guarantee. REQUIRES: the slot is not there.
  void insert(Posting posting);
  // True if the slot was there.
  bool erase(Slot slot) noexcept;
  [[nodiscard]] bool contains(Slot slot) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept {
    return many_ ? many_->size : few_.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  // Bytes beside the object itself.
  [[nodiscard]] std::size_t nbytes() const noexcept;

  // Calls visit(posting) for each, ascending.
  template <class Visit>
  void for_each(Visit visit) const {
    if (!many_) {
      for (const Posting& posting : few_) visit(posting);
      return;
    }
    for (const Block& block : many_->blocks) {
      for (const Posting& posting : block.postings) visit(posting);
    }
  }

 private:
  static constexpr std::size_t kMost = 512;  // postings of a block

  struct Block {
    Slot first;                     // that of the postings, to be found without them
    std::vector<Posting> postings;  // never empty, room for kMost
  };
  struct Many {
    std::vector<Block> blocks;
    std::size_t size = 0;
  };

  // The block where the slot is, or would be.
  [[nodiscard]] std::size_t block_of(Slot slot) const noexcept;
  void make_blocks(std::span<const Posting> sorted);
  void split(std::size_t at);

  std::vector<Posting> few_;    // up to kMost; empty where there are many
  std::unique_ptr<Many> many_;  // null where there are few
};

}  // namespace vecall

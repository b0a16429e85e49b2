#pragma once

// The slots that hold one term, sorted, in blocks of which a change moves one: adding
// or removing a slot costs the logarithm of their number. Most terms have few holders,
// which lie in one array. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "terms/slab_array.hpp"
#include "vecall/types.hpp"

namespace vecall {

struct Posting {
  Slot slot;
  std::uint32_t count;  // how often the slot holds the term
};

class PostingList {
 public:
  PostingList() = default;
  // Copies postings that are sorted by slot, each slot once, to a slab that outlives
  // the list and has room_for() them, or to memory of its own.
  explicit PostingList(std::span<const Posting> sorted, Posting* slab = nullptr);
  // So many postings have room for growth as well.
  static constexpr std::size_t room_for(std::size_t postings) noexcept {
    if (postings <= kMost) return postings;
    return (postings + kFilled - 1) / kFilled * kMost;
  }

  // Returns by how much nbytes() has grown. Strong guarantee. REQUIRES: the slot is not
  // there.
  std::size_t insert(Posting posting);
  // True if the slot was there.
  bool erase(Slot slot) noexcept;
  [[nodiscard]] bool contains(Slot slot) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept {
    return many_ ? many_->size : few_.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  // Bytes beside the object itself and a slab.
  [[nodiscard]] std::size_t nbytes() const noexcept;

  // Has the processor fetch what erase(slot) looks at.
  void prefetch(Slot slot) const noexcept;

  // Calls visit(postings) for one run after another, ascending, none empty.
  template <class Visit>
  void for_each_run(Visit visit) const {
    if (!many_) {
      if (!few_.empty()) visit(std::span<const Posting>(few_));
      return;
    }
    const std::vector<Block>& blocks = many_->blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i + 1 < blocks.size()) prefetch(blocks[i + 1], 1);
      visit(std::span<const Posting>(blocks[i]));
    }
  }
  // Calls visit(posting) for each, ascending.
  template <class Visit>
  void for_each(Visit visit) const {
    for_each_run([&visit](std::span<const Posting> run) {
      for (const Posting& posting : run) visit(posting);
    });
  }

 private:
  static constexpr std::size_t kMost = 128;  // postings of a block: 1 KiB
  // Blocks are made almost full: most postings come at the end, where slots grow.
  static constexpr std::size_t kFilled = kMost - kMost / 8;

  using Block = SlabArray<Posting>;  // never empty, room for kMost
  struct Many {
    std::vector<Block> blocks;
    std::vector<Slot> first;  // of each block, to be found without the blocks
    std::size_t size = 0;
    std::size_t in_slab = 0;  // of the blocks
  };

  // Fetches every n-th line of a block: it is somewhere else than the one before.
  static void prefetch(const Block& block, std::size_t nth) noexcept {
    constexpr std::size_t kOfLine = 64 / sizeof(Posting);
    for (std::size_t at = 0; at < block.size(); at += nth * kOfLine) {
      __builtin_prefetch(block.data() + at);
    }
  }
  // The block where the slot is, or would be.
  [[nodiscard]] std::size_t block_of(Slot slot) const noexcept;
  void insert_among_many(Posting posting);
  void make_blocks(std::span<const Posting> sorted, Posting* slab);
  void split(std::size_t at);

  Block few_;                   // up to kMost; empty where there are many
  std::unique_ptr<Many> many_;  // null where there are few
};

}  // namespace vecall

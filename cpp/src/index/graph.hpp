#pragma once

// The links of a hierarchical navigable small world (Malkov and Yashunin, "Efficient
// and robust approximate nearest neighbor search using Hierarchical Navigable Small
// World graphs", 2018) over the slots of a row table: a list of up to 2 m neighbours on
// the lowest level, of up to m on each of the levels that a slot rises to.
//
// Thread safety: reserve() excludes everybody (the partition's lock, taken unique). One
// thread at a time links; any number search meanwhile. Links are atomic words: a reader
// that sees half of a new list sees old and new neighbours, each of them a valid slot.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/copies.hpp"
#include "index/landmarks.hpp"
#include "rows/row_table.hpp"
#include "vecall/assert.hpp"
#include "vecall/types.hpp"

namespace vecall {

class Graph {
 public:
  using Link = std::atomic<Slot>;

  // Set in a link to a row that is nearer to another one of the list than to the list's
  // owner: the first to go when the list overflows.
  static constexpr Slot kDominated = Slot{1} << 31;
  static constexpr int kMostLevels = 16;

  // `lowest` are the lists of the lowest level where they stay in a snapshot, (slots,
  // 2 m): a graph that is not changed any more.
  explicit Graph(std::uint32_t m, const Slot* lowest = nullptr);

  // Makes room for slots below `slots`, and for so many more upper lists. Strong
  // guarantee.
  void reserve(std::size_t slots, std::size_t lists);

  [[nodiscard]] std::uint32_t m() const noexcept { return m_; }
  // Most links of a list.
  [[nodiscard]] std::uint32_t degree(int level) const noexcept {
    return level == 0 ? 2 * m_ : m_;
  }
  // How high a slot rises: with probability m^-level, the same every time.
  [[nodiscard]] int level_of(Slot slot) const noexcept;

  // The list of a slot, slots with or without kDominated, ended by kNoSlot where it is
  // not full. REQUIRES: level is 0, or
  // the slot has lists up to it.
  [[nodiscard]] Link* links(Slot slot, int level) const noexcept {
    const Chunk& chunk = *chunks_[slot / kChunkRows];
    const std::size_t row = slot % kChunkRows;
    if (level == 0) return chunk.links + row * stride_;
    const std::uint32_t list = chunk.upper[row].load(std::memory_order_acquire);
    VECALL_ASSERT(list != kNoList);
    return list_at(list + static_cast<std::uint32_t>(level) - 1);
  }
  void prefetch_links(Slot slot, int level) const noexcept {
    if (level != 0) return;
    const Link* list = chunks_[slot / kChunkRows]->links + slot % kChunkRows * stride_;
    for (std::size_t at = 0; at < stride_; at += 16) __builtin_prefetch(list + at);
  }
  // True if the slot was linked; what stands in it since may be another row.
  [[nodiscard]] bool is_linked(Slot slot) const noexcept {
    return slot < chunks_.size() * kChunkRows &&
           chunks_[slot / kChunkRows]->linked[slot % kChunkRows].load(
               std::memory_order_acquire) != 0;
  }

  // Makes room for slots to be linked and to become entrances.
  void make_room(const RowTable& rows, std::span<const Slot> slots);
  // Lets searches begin at a slot if it is linked. REQUIRES: make_room() was called for
  // it.
  void add_entrances(const RowTable& rows, Slot slot) noexcept;

  // Gives the slot its upper lists, empty, if it has none. REQUIRES: reserved.
  void add_upper_levels(Slot slot) noexcept;
  void set_linked(Slot slot) noexcept {
    chunks_[slot / kChunkRows]->linked[slot % kChunkRows].store(
        1, std::memory_order_release);
  }
  // Copies ids into a list and ends it.
  void set_links(Slot slot, int level, const Slot* ids, std::size_t count) noexcept;
  // Copies the slots of a list out; `out` has room for degree(level). Returns how many.
  std::size_t copy_links(Slot slot, int level, Slot* out) const noexcept;

  // Where searches begin, and its level; kNoSlot while the graph is empty.
  struct Entry {
    Slot slot;
    int level;
  };
  [[nodiscard]] Entry entry() const noexcept {
    const std::uint64_t packed = entry_.load(std::memory_order_acquire);
    return {static_cast<Slot>(packed), static_cast<int>(packed >> 32)};
  }
  void set_entry(Entry entry) noexcept {
    entry_.store(static_cast<std::uint64_t>(entry.level) << 32 | entry.slot,
                 std::memory_order_release);
  }
  [[nodiscard]] const Landmarks& landmarks() const noexcept { return landmarks_; }
  [[nodiscard]] Landmarks& landmarks() noexcept { return landmarks_; }
  // Has room for every slot that is linked.
  [[nodiscard]] const Copies& copies() const noexcept { return copies_; }
  [[nodiscard]] Copies& copies() noexcept { return copies_; }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  friend class GraphSnapshot;

  static constexpr std::size_t kListsInPart = 1024;
  static constexpr std::uint32_t kNoList = static_cast<std::uint32_t>(-1);

  struct FreeLinks {
    void operator()(Link* links) const noexcept;
  };
  using Links = std::unique_ptr<Link[], FreeLinks>;
  struct Chunk {
    Link* links = nullptr;                         // (kChunkRows, stride), in a block
    std::atomic<std::uint32_t> upper[kChunkRows];  // first upper list of each row
    std::atomic<std::uint8_t> linked[kChunkRows];
  };

  static Links make_links(std::size_t count);
  void add_chunks(std::size_t count);
  [[nodiscard]] Link* list_at(std::uint32_t list) const noexcept {
    return lists_[list / kListsInPart].get() + list % kListsInPart * upper_stride_;
  }

  const std::uint32_t m_;
  const Slot* const lowest_;
  const double flat_above_;   // numbers of slots that do not rise
  const std::size_t stride_;  // words of a lowest list, whole halves of cache lines
  const std::size_t upper_stride_;  // words of an upper list
  std::vector<Links> blocks_;       // lowest lists, of the chunks that came together
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Links> lists_;  // of the upper levels, in parts that never move
  std::uint32_t used_lists_ = 0;
  std::atomic<std::uint64_t> entry_{kNoSlot};
  Landmarks landmarks_;
  Copies copies_;
};

}  // namespace vecall

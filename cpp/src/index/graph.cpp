#include "index/graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#include "allocation/pages.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLineWords = kCacheLine / sizeof(Slot);
constexpr std::size_t kHalfLine = kLineWords / 2;
constexpr std::size_t kBlockChunks = 4;
constexpr double kBeyondRounding = 1e-9;

}  // namespace

void Graph::FreeLinks::operator()(Link* links) const noexcept {
  free_pages(links);
}

Graph::Links Graph::make_links(std::size_t count) {
  static_assert(Link::is_always_lock_free && sizeof(Link) == sizeof(Slot));
  auto* links = static_cast<Link*>(allocate_pages(count * sizeof(Link)));
  for (std::size_t i = 0; i < count; ++i) new (links + i) Link(kNoSlot);
  return Links(links);
}

Graph::Graph(std::uint32_t m, const Slot* lowest)
    : m_(m),
      lowest_(lowest),
      flat_above_((1.0 + kBeyondRounding) / static_cast<double>(m)),
      stride_(lowest != nullptr
                  ? 2 * std::size_t{m}
                  : (2 * std::size_t{m} + kHalfLine - 1) / kHalfLine * kHalfLine),
      upper_stride_((std::size_t{m} + kLineWords - 1) / kLineWords * kLineWords) {}

void Graph::make_room(const RowTable& rows, std::span<const Slot> slots) {
  std::size_t lists = 0;
  std::size_t entrances = 0;
  for (const Slot slot : slots) {
    lists += static_cast<std::size_t>(level_of(slot));
    entrances += landmarks_.may_want(slot) ? 1 : 0;
  }
  reserve(rows.slots(), lists);
  landmarks_.reserve(rows, entrances);
}

void Graph::add_entrances(const RowTable& rows, Slot slot) noexcept {
  if (!is_linked(slot)) return;
  landmarks_.add(rows, slot);
  if (rows.has_vector(slot)) copies_.add(rows, slot);
}

void Graph::reserve(std::size_t slots, std::size_t lists) {
  // Several chunks at once share a block, which then fits huge pages.
  while (chunks_.size() * kChunkRows < slots) {
    const std::size_t missing = (slots + kChunkRows - 1) / kChunkRows - chunks_.size();
    add_chunks(missing >= kBlockChunks ? kBlockChunks : 1);
  }
  while (used_lists_ + lists > lists_.size() * kListsInPart) {
    lists_.push_back(make_links(kListsInPart * upper_stride_));
  }
}

void Graph::add_chunks(std::size_t count) {
  copies_.reserve((chunks_.size() + count) * kChunkRows);
  std::vector<std::unique_ptr<Chunk>> made;
  for (std::size_t i = 0; i < count; ++i) {
    auto& chunk = made.emplace_back(std::make_unique<Chunk>());
    for (auto& upper : chunk->upper) upper.store(kNoList, std::memory_order_relaxed);
    for (auto& linked : chunk->linked) linked.store(0, std::memory_order_relaxed);
  }
  blocks_.reserve(blocks_.size() + 1);
  chunks_.reserve(chunks_.size() + count);
  Links block;
  Link* links = nullptr;
  if (lowest_ == nullptr) {
    block = make_links(count * kChunkRows * stride_);
    links = block.get();
  } else {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): only loads come
    links = const_cast<Link*>(reinterpret_cast<const Link*>(lowest_)) +
            chunks_.size() * kChunkRows * stride_;
  }
  for (std::size_t i = 0; i < count; ++i) {
    made[i]->links = links + i * kChunkRows * stride_;
    chunks_.push_back(std::move(made[i]));
  }
  if (block) blocks_.push_back(std::move(block));
}

int Graph::level_of(Slot slot) const noexcept {
  std::uint64_t z = (slot + std::uint64_t{1}) * 0x9E37'79B9'7F4A'7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBULL;
  z ^= z >> 31;
  const double uniform = (static_cast<double>(z >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
  if (uniform > flat_above_) return 0;  // most slots: the logarithm takes long
  const double level = -std::log(uniform) / std::log(static_cast<double>(m_));
  return std::min(static_cast<int>(level), kMostLevels - 1);
}

void Graph::add_upper_levels(Slot slot) noexcept {
  const int level = level_of(slot);
  std::atomic<std::uint32_t>& upper =
      chunks_[slot / kChunkRows]->upper[slot % kChunkRows];
  if (level == 0 || upper.load(std::memory_order_relaxed) != kNoList) return;
  VECALL_ASSERT(used_lists_ + static_cast<std::size_t>(level) <=
                lists_.size() * kListsInPart);
  upper.store(used_lists_, std::memory_order_release);
  used_lists_ += static_cast<std::uint32_t>(level);
}

void Graph::set_links(Slot slot, int level, const Slot* ids,
                      std::size_t count) noexcept {
  Link* list = links(slot, level);
  const std::size_t most = degree(level);
  for (std::size_t i = 0; i < most; ++i) {
    list[i].store(i < count ? ids[i] : kNoSlot, std::memory_order_release);
  }
}

std::size_t Graph::copy_links(Slot slot, int level, Slot* out) const noexcept {
  const Link* list = links(slot, level);
  const std::size_t most = degree(level);
  std::size_t count = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const Slot other = list[i].load(std::memory_order_acquire);
    if (other == kNoSlot) break;
    out[count++] = other & ~kDominated;
  }
  return count;
}

std::size_t Graph::nbytes() const noexcept {
  return sizeof(*this) + landmarks_.nbytes() + copies_.nbytes() +
         chunks_.size() *
             (sizeof(Chunk) +
              (lowest_ == nullptr ? kChunkRows * stride_ * sizeof(Link) : 0)) +
         lists_.size() * kListsInPart * upper_stride_ * sizeof(Link);
}

}  // namespace vecall

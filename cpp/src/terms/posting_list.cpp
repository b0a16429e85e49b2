#include "terms/posting_list.hpp"

#include <algorithm>
#include <utility>

#include "terms/sorted_block.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

Slot slot_of(Slot slot) noexcept {
  return slot;
}
Slot slot_of(const Posting& posting) noexcept {
  return posting.slot;
}

// Index of the last entry whose slot is not above this one, 0 if there is none. A
// binary search without a branch to predict: half of its turns are as good as thrown
// dice. REQUIRES: not empty.
template <class Entry>
std::size_t last_up_to(std::span<const Entry> sorted, Slot slot) noexcept {
  VECALL_ASSERT(!sorted.empty());
  const Entry* first = sorted.data();
  std::size_t left = sorted.size();
  while (left > 1) {
    const std::size_t half = left / 2;
    first += slot_of(first[half]) <= slot ? half : 0;
    left -= half;
  }
  return static_cast<std::size_t>(first - sorted.data());
}

// Where the slot is among sorted postings, or would be.
std::size_t place_of(std::span<const Posting> sorted, Slot slot) noexcept {
  // Most come at the end, where slots grow.
  if (sorted.empty() || sorted.back().slot < slot) return sorted.size();
  const std::size_t at = last_up_to(sorted, slot);
  return sorted[at].slot < slot ? at + 1 : at;
}

}  // namespace

PostingList::PostingList(std::span<const Posting> sorted, Posting* slab) {
  if (sorted.size() > kMost) {
    make_blocks(sorted, slab);
  } else {
    few_ = make_block(Block(slab, sorted.size()), sorted, sorted.size());
  }
}

void PostingList::make_blocks(std::span<const Posting> sorted, Posting* slab) {
  auto many = std::make_unique<Many>();
  many->size = sorted.size();
  many->blocks.reserve(sorted.size() / kFilled + 2);
  many->first.reserve(many->blocks.capacity());
  while (!sorted.empty()) {
    const auto some = sorted.first(std::min(kFilled, sorted.size()));
    many->blocks.push_back(make_block(Block(slab, kMost), some, kMost));
    if (slab != nullptr) {
      slab += kMost;
      ++many->in_slab;
    }
    many->first.push_back(some.front().slot);
    sorted = sorted.subspan(some.size());
  }
  many_ = std::move(many);
}

std::size_t PostingList::block_of(Slot slot) const noexcept {
  const std::vector<Slot>& first = many_->first;
  if (slot >= first.back()) return first.size() - 1;
  return last_up_to(std::span<const Slot>(first), slot);
}

std::size_t PostingList::insert(Posting posting) {
  VECALL_ASSERT(!contains(posting.slot));
  const bool is_full = many_ ? many_->blocks[block_of(posting.slot)].size() == kMost
                             : few_.size() == kMost || few_.size() == few_.capacity();
  const std::size_t before = is_full ? nbytes() : 0;
  if (!many_ && few_.size() == kMost) {
    make_blocks(few_, nullptr);
    few_.clear();
  }
  if (many_) {
    insert_among_many(posting);
  } else {
    few_.insert(place_of(few_, posting.slot), posting);
  }
  return is_full ? nbytes() - before : 0;
}

void PostingList::insert_among_many(Posting posting) {
  std::size_t which = block_of(posting.slot);
  if (many_->blocks[which].size() == kMost) {
    split(which);
    which = block_of(posting.slot);
  }
  Block& block = many_->blocks[which];
  block.insert(place_of(block, posting.slot), posting);
  many_->first[which] = block.front().slot;
  ++many_->size;
}

void PostingList::split(std::size_t at) {
  std::vector<Slot>& first = many_->first;
  // Grown before anything changes, so that both stay in step.
  if (first.size() == first.capacity()) first.reserve(2 * first.size());
  split_block(many_->blocks, at);
  first.insert(first.begin() + static_cast<std::ptrdiff_t>(at) + 1,
               many_->blocks[at + 1].front().slot);
}

bool PostingList::erase(Slot slot) noexcept {
  const std::size_t which = many_ ? block_of(slot) : 0;
  Block& block = many_ ? many_->blocks[which] : few_;
  const std::size_t at = place_of(block, slot);
  if (at == block.size() || block[at].slot != slot) return false;
  block.erase(at);
  if (!many_) return true;
  const auto place = static_cast<std::ptrdiff_t>(which);
  if (--many_->size == 0) {
    many_.reset();
  } else if (block.empty()) {
    many_->in_slab -= block.nbytes() == 0 ? 1 : 0;
    many_->blocks.erase(many_->blocks.begin() + place);
    many_->first.erase(many_->first.begin() + place);
  } else {
    many_->first[which] = block.front().slot;
  }
  return true;
}

bool PostingList::contains(Slot slot) const noexcept {
  const Block& sorted = many_ ? many_->blocks[block_of(slot)] : few_;
  const std::size_t at = place_of(sorted, slot);
  return at < sorted.size() && sorted[at].slot == slot;
}

void PostingList::prefetch(Slot slot) const noexcept {
  prefetch(many_ ? many_->blocks[block_of(slot)] : few_, 2);  // a search needs few
}

std::size_t PostingList::nbytes() const noexcept {
  if (!many_) return few_.capacity() * sizeof(Posting);
  return sizeof(Many) + many_->blocks.capacity() * sizeof(Block) +
         many_->first.capacity() * sizeof(Slot) +
         (many_->blocks.size() - many_->in_slab) * kMost * sizeof(Posting);
}

}  // namespace vecall

#include "terms/posting_list.hpp"

#include <algorithm>
#include <utility>

namespace vecall {

namespace {

bool is_before(const Posting& posting, Slot slot) noexcept {
  return posting.slot < slot;
}

// A binary search without a branch to predict: half of its turns are as good as
// thrown dice.
bool holds(std::span<const Posting> sorted, Slot slot) noexcept {
  const Posting* first = sorted.data();
  std::size_t left = sorted.size();
  if (left == 0) return false;
  while (left > 1) {
    const std::size_t half = left / 2;
    first += first[half - 1].slot < slot ? half : 0;
    left -= half;
  }
  return first->slot == slot;
}

}  // namespace

PostingList::PostingList(std::span<const Posting> sorted) {
  if (sorted.size() > kMost) {
    make_blocks(sorted);
  } else {
    few_.assign(sorted.begin(), sorted.end());
  }
}

// Blocks are made almost full: most postings come at the end, where slots grow.
void PostingList::make_blocks(std::span<const Posting> sorted) {
  constexpr std::size_t kFilled = kMost - kMost / 8;
  auto many = std::make_unique<Many>();
  many->size = sorted.size();
  many->blocks.reserve(sorted.size() / kFilled + 2);
  while (!sorted.empty()) {
    const auto some = sorted.first(std::min(kFilled, sorted.size()));
    Block block{some.front().slot, {}};
    block.postings.reserve(kMost);
    block.postings.assign(some.begin(), some.end());
    many->blocks.push_back(std::move(block));
    sorted = sorted.subspan(some.size());
  }
  many_ = std::move(many);
}

std::size_t PostingList::block_of(Slot slot) const noexcept {
  const auto after = std::upper_bound(
      many_->blocks.begin(), many_->blocks.end(), slot,
      [](Slot wanted, const Block& block) { return wanted < block.first; });
  const auto at = static_cast<std::size_t>(after - many_->blocks.begin());
  return at == 0 ? 0 : at - 1;
}

void PostingList::insert(Posting posting) {
  if (!many_ && few_.size() == kMost) {
    make_blocks(few_);
    std::vector<Posting>().swap(few_);
  }
  if (!many_) {
    few_.insert(std::lower_bound(few_.begin(), few_.end(), posting.slot, is_before),
                posting);
    return;
  }
  std::size_t which = block_of(posting.slot);
  if (many_->blocks[which].postings.size() == kMost) {
    split(which);
    which = block_of(posting.slot);
  }
  Block& block = many_->blocks[which];
  block.postings.insert(std::lower_bound(block.postings.begin(), block.postings.end(),
                                         posting.slot, is_before),
                        posting);
  block.first = block.postings.front().slot;
  ++many_->size;
}

// A full block becomes two. The last one stays almost whole.
void PostingList::split(std::size_t at) {
  std::vector<Block>& blocks = many_->blocks;
  if (blocks.size() == blocks.capacity()) blocks.reserve(2 * blocks.size());
  Block upper{};
  upper.postings.reserve(kMost);
  std::vector<Posting>& lower = blocks[at].postings;
  const std::size_t kept = at + 1 == blocks.size() ? kMost - 1 : kMost / 2;
  const auto middle = lower.begin() + static_cast<std::ptrdiff_t>(kept);
  upper.first = middle->slot;
  upper.postings.assign(middle, lower.end());
  lower.erase(middle, lower.end());
  blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
}

bool PostingList::erase(Slot slot) noexcept {
  const std::size_t which = many_ ? block_of(slot) : 0;
  std::vector<Posting>& block = many_ ? many_->blocks[which].postings : few_;
  const auto at = std::lower_bound(block.begin(), block.end(), slot, is_before);
  if (at == block.end() || at->slot != slot) return false;
  block.erase(at);
  if (!many_) return true;
  if (--many_->size == 0) {
    many_.reset();
  } else if (block.empty()) {
    many_->blocks.erase(many_->blocks.begin() + static_cast<std::ptrdiff_t>(which));
  } else {
    many_->blocks[which].first = block.front().slot;
  }
  return true;
}

bool PostingList::contains(Slot slot) const noexcept {
  return holds(many_ ? many_->blocks[block_of(slot)].postings : few_, slot);
}

std::size_t PostingList::nbytes() const noexcept {
  if (!many_) return few_.capacity() * sizeof(Posting);
  return sizeof(Many) + many_->blocks.capacity() * sizeof(Block) +
         many_->blocks.size() * kMost * sizeof(Posting);
}

}  // namespace vecall

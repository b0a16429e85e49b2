#include "terms/postings_snapshot.hpp"

#include <algorithm>
#include <limits>

namespace vecall {

void PostingsSnapshot::save(const Postings& postings, SnapshotWriter& writer) {
  std::vector<Postings::Ordinal> order;
  std::size_t total = 0;
  for (std::size_t ordinal = 0; ordinal < postings.lists_.size(); ++ordinal) {
    if (postings.lists_[ordinal].empty()) continue;  // it has no term
    order.push_back(static_cast<Postings::Ordinal>(ordinal));
    total += postings.lists_[ordinal].size();
  }
  std::sort(order.begin(), order.end(), [&postings](auto a, auto b) {
    return postings.hashes_[a] < postings.hashes_[b];
  });
  auto* terms = writer.add_array<TermHash>(Section::kTerms, order.size());
  for (const auto ordinal : order) *terms++ = postings.hashes_[ordinal];
  auto* holders = writer.add_array<std::uint32_t>(Section::kHolders, order.size());
  for (const auto ordinal : order) {
    *holders++ = static_cast<std::uint32_t>(postings.lists_[ordinal].size());
  }
  auto* out = writer.add_array<Posting>(Section::kPostings, total);
  for (const auto ordinal : order) {
    postings.lists_[ordinal].for_each(
        [&out](const Posting& posting) { *out++ = posting; });
  }
}

namespace {

// Makes room for the terms of each slot at once.
void reserve_terms(std::span<const Posting> postings,
                   std::vector<std::vector<std::uint32_t>>& of_slot) {
  std::vector<std::uint32_t> counts(of_slot.size(), 0);
  for (const Posting& posting : postings) {
    if (posting.slot < counts.size()) ++counts[posting.slot];
  }
  for (std::size_t slot = 0; slot < counts.size(); ++slot) {
    of_slot[slot].reserve(counts[slot]);
  }
}

}  // namespace

void PostingsSnapshot::restore(const SnapshotReader& reader,
                               const std::function<bool(Slot)>& is_live,
                               Postings& postings) {
  const std::size_t slots = reader.header().slots;
  const std::size_t count = reader.count<TermHash>(Section::kTerms);
  const auto terms = reader.array<TermHash>(Section::kTerms, count);
  const auto holders = reader.array<std::uint32_t>(Section::kHolders, count);
  const std::size_t total = reader.count<Posting>(Section::kPostings);
  const auto all = reader.array<Posting>(Section::kPostings, total);
  if (std::adjacent_find(terms.begin(), terms.end(), std::greater_equal<>()) !=
      terms.end()) {
    refuse_snapshot("words are not in order");
  }
  postings.ordinals_.reserve(count);
  postings.lists_.reserve(count);
  postings.free_.reserve(count);
  postings.hashes_.assign(terms.begin(), terms.end());
  postings.of_slot_.resize(slots);
  postings.length_.resize(slots, 0);
  reserve_terms(all, postings.of_slot_);
  std::vector<std::uint64_t> lengths(slots, 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (holders[i] == 0 || holders[i] > total - at) {
      refuse_snapshot("a word's rows lie outside of their section");
    }
    const auto list = all.subspan(at, holders[i]);
    at += holders[i];
    Slot after = 0;
    for (const auto& [slot, times] : list) {
      if (slot < after || slot >= slots || !is_live(slot) || times == 0) {
        refuse_snapshot("a word's rows are not in order");
      }
      after = slot + 1;
      if (terms[i] < kPartTerm) lengths[slot] += times;
      postings.of_slot_[slot].push_back(static_cast<Postings::Ordinal>(i));
    }
    postings.ordinals_.emplace(terms[i], static_cast<Postings::Ordinal>(i));
    postings.held_bytes_ += postings.lists_.emplace_back(list).nbytes();
  }
  if (at != total) refuse_snapshot("rows without a word");
  for (std::size_t slot = 0; slot < slots; ++slot) {
    postings.held_bytes_ +=
        postings.of_slot_[slot].capacity() * sizeof(Postings::Ordinal);
    if (lengths[slot] > std::numeric_limits<std::uint32_t>::max()) {
      refuse_snapshot("a row has more words than there can be");
    }
    postings.length_[slot] = static_cast<std::uint32_t>(lengths[slot]);
    postings.total_length_ += lengths[slot];
    postings.documents_ += postings.of_slot_[slot].empty() ? 0 : 1;
  }
}

}  // namespace vecall

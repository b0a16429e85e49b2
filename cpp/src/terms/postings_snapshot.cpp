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

void PostingsSnapshot::restore(const SnapshotReader& reader,
                               const std::function<bool(Slot)>& is_live,
                               Postings& postings) {
  using Ordinal = Postings::Ordinal;
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
  std::vector<std::uint32_t> ends(slots, 0);  // where the next term of each slot lies
  postings.length_.resize(slots, 0);
  std::uint32_t* const lengths = postings.length_.data();
  bool is_too_long = false;
  std::size_t room = 0;  // of all lists
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (holders[i] == 0 || holders[i] > total - at) {
      refuse_snapshot("a word's rows lie outside of their section");
    }
    room += PostingList::room_for(holders[i]);
    const bool is_word = terms[i] < kPartTerm;
    Slot after = 0;
    for (const auto& [slot, times] : all.subspan(at, holders[i])) {
      if (slot < after || slot >= slots || times == 0) {
        refuse_snapshot("a word's rows are not in order");
      }
      after = slot + 1;
      ++ends[slot];
      const std::uint32_t counted = is_word ? times : 0;
      lengths[slot] += counted;
      is_too_long |= lengths[slot] < counted;
    }
    at += holders[i];
  }
  if (at != total) refuse_snapshot("rows without a word");
  if (is_too_long) refuse_snapshot("a row has more words than there can be");
  const std::size_t bytes = room * sizeof(Posting) + total * sizeof(Ordinal);
  postings.slab_.reset(static_cast<std::byte*>(allocate_pages(bytes)));
  postings.held_bytes_ = bytes;
  auto* list_slab = reinterpret_cast<Posting*>(postings.slab_.get());
  auto* const row_slab = reinterpret_cast<Ordinal*>(list_slab + room);
  postings.ordinals_.reserve(count);
  postings.lists_.reserve(count);
  postings.free_.reserve(count);
  postings.hashes_.assign(terms.begin(), terms.end());
  postings.of_slot_.reserve(slots);
  std::size_t begin = 0;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::size_t terms_of_slot = ends[slot];
    if (terms_of_slot > 0 && !is_live(static_cast<Slot>(slot))) {
      refuse_snapshot("a word's row is not there");
    }
    postings.of_slot_.emplace_back(row_slab + begin, terms_of_slot, terms_of_slot);
    ends[slot] = static_cast<std::uint32_t>(begin);
    begin += terms_of_slot;
    postings.total_length_ += lengths[slot];
    postings.documents_ += terms_of_slot == 0 ? 0 : 1;
  }
  constexpr std::size_t kAhead = 24;  // postings, whose rows' terms are fetched
  at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto list = all.subspan(at, holders[i]);
    for (const std::size_t end = at + holders[i]; at < end; ++at) {
      const Posting& ahead = all[std::min(at + kAhead, total - 1)];
      __builtin_prefetch(row_slab + ends[ahead.slot], 1);
      row_slab[ends[all[at].slot]++] = static_cast<Ordinal>(i);
    }
    postings.ordinals_.emplace(terms[i], static_cast<Ordinal>(i));
    postings.held_bytes_ += postings.lists_.emplace_back(list, list_slab).nbytes();
    list_slab += PostingList::room_for(list.size());
  }
}

}  // namespace vecall

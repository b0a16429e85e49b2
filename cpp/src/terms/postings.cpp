#include "terms/postings.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "vecall/assert.hpp"

namespace vecall {

void TermScores::clear() noexcept {
  for (const Slot slot : touched) of_slot[slot] = {};
  touched.clear();
  query_idf = 0;
}

Postings::Ordinal Postings::ordinal_of(TermHash term) {
  const Ordinal found = ordinals_.find(term);
  if (found != TermMap::kNone) return found;
  ordinals_.reserve(ordinals_.size() + 1);
  if (free_.empty()) {
    // Growing all three first keeps them in step if one of them runs out of memory.
    const std::size_t grown = lists_.size() + 1;
    if (grown > lists_.capacity()) lists_.reserve(grown * 2);
    if (grown > hashes_.capacity()) hashes_.reserve(grown * 2);
    if (grown > free_.capacity()) free_.reserve(grown * 2);
    lists_.emplace_back();
    hashes_.push_back(term);
    ordinals_.emplace(term, static_cast<Ordinal>(grown - 1));
    return static_cast<Ordinal>(grown - 1);
  }
  const Ordinal ordinal = free_.back();
  ordinals_.emplace(term, ordinal);
  free_.pop_back();
  hashes_[ordinal] = term;
  return ordinal;
}

void Postings::add(Slot slot, std::span<const TermHash> terms) {
  if (slot >= of_slot_.size()) {
    length_.resize(std::max<std::size_t>(length_.size(), slot + std::size_t{1}), 0);
    of_slot_.resize(slot + std::size_t{1});
  }
  VECALL_ASSERT(of_slot_[slot].empty());
  if (terms.empty()) return;
  std::vector<TermHash> sorted(terms.begin(), terms.end());
  std::sort(sorted.begin(), sorted.end());
  SlabArray<Ordinal>& mine = of_slot_[slot];
  try {
    mine.reserve(sorted.size());
    held_bytes_ += mine.nbytes();
    for (std::size_t i = 0; i < sorted.size();) {
      std::size_t end = i;
      while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
      const Ordinal ordinal = ordinal_of(sorted[i]);
      mine.push_back(ordinal);  // capacity is there; before the list, so undo finds it
      held_bytes_ +=
          lists_[ordinal].insert({slot, static_cast<std::uint32_t>(end - i)});
      i = end;
    }
  } catch (...) {
    for (const Ordinal ordinal : mine) drop(ordinal, slot);
    held_bytes_ -= mine.nbytes();
    mine.clear();
    throw;
  }
  // Parts have the highest bit and stand last.
  const auto parts = std::lower_bound(sorted.begin(), sorted.end(), kPartTerm);
  const auto length = static_cast<std::uint32_t>(parts - sorted.begin());
  length_[slot] = length;
  total_length_ += length;
  ++documents_;
}

void Postings::drop(Ordinal ordinal, Slot slot) noexcept {
  PostingList& list = lists_[ordinal];
  held_bytes_ -= list.nbytes();
  list.erase(slot);
  if (list.empty()) {
    list = PostingList();
    ordinals_.erase(hashes_[ordinal]);
    free_.push_back(ordinal);  // capacity was reserved with the list
  }
  held_bytes_ += list.nbytes();
}

void Postings::remove(Slot slot) noexcept {
  if (slot >= of_slot_.size() || of_slot_[slot].empty()) return;
  SlabArray<Ordinal>& mine = of_slot_[slot];
  // Each list is somewhere else in memory: they are fetched together.
  for (const Ordinal ordinal : mine) __builtin_prefetch(&lists_[ordinal], 1);
  for (const Ordinal ordinal : mine) lists_[ordinal].prefetch(slot);
  for (const Ordinal ordinal : mine) drop(ordinal, slot);
  held_bytes_ -= mine.nbytes();
  mine.clear();
  total_length_ -= length_[slot];
  length_[slot] = 0;
  --documents_;
}

const PostingList* Postings::find(TermHash term) const {
  const Ordinal found = ordinals_.find(term);
  return found == TermMap::kNone ? nullptr : &lists_[found];
}

void Postings::score_list(const PostingList& list, float idf, float weight,
                          float mean_length, TermScores& scores) const {
  TermScore* const of_slot = scores.of_slot.data();
  const std::uint32_t* const lengths = length_.data();
  const float most = weight * idf;
  list.for_each_run([&](std::span<const Posting> run) {
    std::size_t found = scores.touched.size();
    scores.touched.resize(found + run.size());
    Slot* const touched = scores.touched.data();
    for (const Posting& posting : run) {
      const auto count = static_cast<float>(posting.count);
      const float length = static_cast<float>(lengths[posting.slot]) / mean_length;
      const float norm = kBm25K1 * (1.0F - kBm25B + kBm25B * length);
      TermScore& score = of_slot[posting.slot];
      // Without a branch, since it is not predictable.
      touched[found] = posting.slot;
      found += score.matched == 0.0F ? 1 : 0;
      score.bm25 += most * count / (count + norm);
      score.matched += idf;
    }
    scores.touched.resize(found);
  });
}

void Postings::score(std::span<const TermHash> query, TermScores& scores) const {
  if (query.empty() || documents_ == 0) return;
  if (scores.of_slot.size() < of_slot_.size()) scores.of_slot.resize(of_slot_.size());
  std::vector<TermHash> sorted(query.begin(), query.end());
  std::sort(sorted.begin(), sorted.end());
  const auto documents = static_cast<float>(documents_);
  const float mean_length =
      std::max(static_cast<float>(total_length_), 1.0F) / documents;
  const auto idf_of = [documents](const PostingList* list) {
    const auto frequency = list == nullptr ? 0.0F : static_cast<float>(list->size());
    return std::log1p((documents - frequency + 0.5F) / (frequency + 0.5F));
  };
  std::size_t i = 0;
  while (i < sorted.size() && sorted[i] < kPartTerm) {
    std::size_t end = i;
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    const auto repeats = static_cast<float>(end - i);
    const PostingList* list = find(sorted[i]);
    i = end;
    const float idf = idf_of(list);
    scores.query_idf += idf;
    if (list == nullptr) continue;
    score_list(*list, idf, repeats * (kBm25K1 + 1.0F), mean_length, scores);
  }
  if (i == 0) return;  // optional terms add to what words find
  const std::span<const TermHash> words(sorted.data(), i);
  constexpr float kWeight = kPartWeight * (kBm25K1 + 1.0F);
  for (; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) continue;
    if (const auto* list = find(sorted[i])) {
      score_list(*list, idf_of(list), kWeight, mean_length, scores);
    }
    const TermHash word = sorted[i] & ~kPartTerm;
    if (std::binary_search(words.begin(), words.end(), word)) continue;
    if (const auto* list = find(word)) {
      score_list(*list, idf_of(list), kWeight, mean_length, scores);
    }
  }
}

std::size_t Postings::steps(std::span<const TermHash> query) const {
  std::size_t steps = 0;
  for (const TermHash term : query) {
    if (const PostingList* list = find(term)) steps += list->size();
  }
  return steps;
}

const PostingList* Postings::list_of(TermHash term) const {
  return term == 0 ? nullptr : find(term);
}

std::size_t Postings::nbytes() const noexcept {
  std::size_t bytes = ordinals_.nbytes() + lists_.capacity() * sizeof(PostingList) +
                      hashes_.capacity() * sizeof(TermHash);
  bytes += of_slot_.capacity() * sizeof(SlabArray<Ordinal>) + length_.capacity() * 4;
  return bytes + held_bytes_;
}

}  // namespace vecall

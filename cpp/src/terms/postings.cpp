#include "terms/postings.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace vecall {

namespace {

bool stands_before(const Posting& posting, Slot slot) noexcept {
  return posting.slot < slot;
}

}  // namespace

void TermScores::clear() noexcept {
  for (const Slot slot : touched) {
    bm25[slot] = 0;
    matched[slot] = 0;
  }
  touched.clear();
  query_idf = 0;
}

Postings::Ordinal Postings::ordinal_of(TermHash term) {
  const auto found = ordinals_.find(term);
  if (found != ordinals_.end()) return found->second;
  if (free_.empty()) {
    // Growing all three first keeps them in step if one of them runs out of memory.
    const std::size_t grown = lists_.size() + 1;
    if (grown > lists_.capacity()) lists_.reserve(grown * 2);
    if (grown > hashes_.capacity()) hashes_.reserve(grown * 2);
    if (grown > free_.capacity()) free_.reserve(grown * 2);
    ordinals_.emplace(term, static_cast<Ordinal>(lists_.size()));
    lists_.emplace_back();
    hashes_.push_back(term);
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
  if (terms.empty()) return;
  std::vector<TermHash> sorted(terms.begin(), terms.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<Ordinal>& mine = of_slot_[slot];
  try {
    mine.reserve(sorted.size());
    for (std::size_t i = 0; i < sorted.size();) {
      std::size_t end = i;
      while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
      const Ordinal ordinal = ordinal_of(sorted[i]);
      mine.push_back(ordinal);  // capacity is there; before the list, so undo finds it
      std::vector<Posting>& list = lists_[ordinal];
      const Posting posting{slot, static_cast<std::uint32_t>(end - i)};
      const auto by_slot = [](const Posting& a, const Posting& b) {
        return a.slot < b.slot;
      };
      list.insert(std::upper_bound(list.begin(), list.end(), posting, by_slot),
                  posting);
      i = end;
    }
  } catch (...) {
    for (const Ordinal ordinal : mine) drop(ordinal, slot);
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
  std::vector<Posting>& list = lists_[ordinal];
  const auto at = std::lower_bound(list.begin(), list.end(), slot, stands_before);
  if (at != list.end() && at->slot == slot) list.erase(at);
  free_if_empty(ordinal);
}

void Postings::drop_all(Ordinal ordinal, std::span<const Holding> doomed) noexcept {
  std::vector<Posting>& list = lists_[ordinal];
  const auto first =
      std::lower_bound(list.begin(), list.end(), doomed.front().slot, stands_before);
  auto next = doomed.begin();
  auto kept = first;
  for (auto at = first; at != list.end(); ++at) {
    while (next != doomed.end() && next->slot < at->slot) ++next;
    if (next == doomed.end() || next->slot != at->slot) *kept++ = *at;
  }
  list.erase(kept, list.end());
  free_if_empty(ordinal);
}

void Postings::free_if_empty(Ordinal ordinal) noexcept {
  std::vector<Posting>& list = lists_[ordinal];
  if (list.empty()) {
    std::vector<Posting>().swap(list);
    ordinals_.erase(hashes_[ordinal]);
    free_.push_back(ordinal);  // capacity was reserved with the list
  }
}

void Postings::remove(Slot slot) noexcept {
  if (slot >= of_slot_.size() || of_slot_[slot].empty()) return;
  for (const Ordinal ordinal : of_slot_[slot]) drop(ordinal, slot);
  forget(slot);
}

void Postings::remove_all(std::span<const Slot> slots) noexcept {
  std::vector<Holding> doomed;
  try {
    for (const Slot slot : slots) {
      if (slot >= of_slot_.size()) continue;
      for (const Ordinal ordinal : of_slot_[slot]) doomed.push_back({ordinal, slot});
    }
  } catch (const std::bad_alloc&) {
    for (const Slot slot : slots) remove(slot);
    return;
  }
  std::sort(doomed.begin(), doomed.end(), [](const Holding& a, const Holding& b) {
    return a.ordinal != b.ordinal ? a.ordinal < b.ordinal : a.slot < b.slot;
  });
  for (std::size_t i = 0; i < doomed.size();) {
    std::size_t end = i;
    while (end < doomed.size() && doomed[end].ordinal == doomed[i].ordinal) ++end;
    drop_all(doomed[i].ordinal, std::span(doomed).subspan(i, end - i));
    i = end;
  }
  for (const Slot slot : slots) {
    if (slot < of_slot_.size() && !of_slot_[slot].empty()) forget(slot);
  }
}

void Postings::forget(Slot slot) noexcept {
  std::vector<Ordinal>().swap(of_slot_[slot]);
  total_length_ -= length_[slot];
  length_[slot] = 0;
  --documents_;
}

const std::vector<Posting>* Postings::find(TermHash term) const {
  const auto found = ordinals_.find(term);
  return found == ordinals_.end() ? nullptr : &lists_[found->second];
}

void Postings::score_list(const std::vector<Posting>& list, float idf, float weight,
                          float mean_length, TermScores& scores) const {
  for (const Posting& posting : list) {
    const auto count = static_cast<float>(posting.count);
    const float length = static_cast<float>(length_[posting.slot]) / mean_length;
    const float norm = kBm25K1 * (1.0F - kBm25B + kBm25B * length);
    if (scores.matched[posting.slot] == 0.0F) scores.touched.push_back(posting.slot);
    scores.bm25[posting.slot] += weight * idf * count / (count + norm);
    scores.matched[posting.slot] += idf;
  }
}

void Postings::score(std::span<const TermHash> query, TermScores& scores) const {
  if (query.empty() || documents_ == 0) return;
  if (scores.bm25.size() < of_slot_.size()) {
    scores.bm25.resize(of_slot_.size(), 0.0F);
    scores.matched.resize(of_slot_.size(), 0.0F);
  }
  std::vector<TermHash> sorted(query.begin(), query.end());
  std::sort(sorted.begin(), sorted.end());
  const auto documents = static_cast<float>(documents_);
  const float mean_length =
      std::max(static_cast<float>(total_length_), 1.0F) / documents;
  const auto idf_of = [documents](const std::vector<Posting>* list) {
    const auto frequency = list == nullptr ? 0.0F : static_cast<float>(list->size());
    return std::log1p((documents - frequency + 0.5F) / (frequency + 0.5F));
  };
  std::size_t i = 0;
  while (i < sorted.size() && sorted[i] < kPartTerm) {
    std::size_t end = i;
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    const auto repeats = static_cast<float>(end - i);
    const std::vector<Posting>* list = find(sorted[i]);
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

bool TermHolders::contains(Slot slot) const noexcept {
  // A binary search without a branch to predict: half of its turns are as good as
  // thrown dice.
  const Posting* first = sorted_.data();
  std::size_t left = sorted_.size();
  if (left == 0) return false;
  while (left > 1) {
    const std::size_t half = left / 2;
    first += first[half - 1].slot < slot ? half : 0;
    left -= half;
  }
  return first->slot == slot;
}

TermHolders Postings::holders(TermHash term) const {
  const auto found = term == 0 ? ordinals_.end() : ordinals_.find(term);
  return found == ordinals_.end() ? TermHolders() : TermHolders(lists_[found->second]);
}

std::size_t Postings::nbytes() const noexcept {
  // A node of the map holds its entry, the next pointer and the hash.
  std::size_t bytes = ordinals_.size() * (sizeof(TermHash) + sizeof(Ordinal) + 20) +
                      ordinals_.bucket_count() * sizeof(void*);
  bytes += lists_.capacity() * sizeof(std::vector<Posting>) +
           hashes_.capacity() * sizeof(TermHash);
  bytes += of_slot_.capacity() * sizeof(std::vector<Ordinal>) + length_.capacity() * 4;
  for (const auto& list : lists_) bytes += list.capacity() * sizeof(Posting);
  for (const auto& terms : of_slot_) bytes += terms.capacity() * sizeof(Ordinal);
  return bytes;
}

}  // namespace vecall

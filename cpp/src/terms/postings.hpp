#pragma once

// The words of one partition: an inverted index over 64-bit term hashes with BM25
// scores (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009) from
// the partition's own statistics, exact after every add and remove. Not thread-safe:
// the partition's lock guards it; any number of threads may score at once, each with
// its own scratch.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocation/pages.hpp"
#include "terms/posting_list.hpp"
#include "terms/term_map.hpp"
#include "vecall/types.hpp"

namespace vecall {

// Saturation and length normalisation. Short conversational texts want less of both
// than the usual 1.2 and 0.75 (bench/results/recall.md has the measurement).
inline constexpr float kBm25K1 = 0.9F;
inline constexpr float kBm25B = 0.75F;

// The share of a word's score that an optional term of the query adds.
inline constexpr float kPartWeight = 0.5F;

struct TermScore {
  float bm25 = 0;
  float matched = 0;  // sum of the idf of the query terms found in the slot
};

// What scoring a query leaves behind, by slot. Reused between queries: only the slots
// in `touched` are non-zero, and the owner calls clear() when it has read them.
struct TermScores {
  std::vector<TermScore> of_slot;
  std::vector<Slot> touched;
  // Sum of the idf of all query terms but optional ones, unknown ones included.
  float query_idf = 0;

  void clear() noexcept;
};

class Postings {
 public:
  // Indexes the words of `slot`, repeats counted; no words is fine. Strong guarantee.
  // REQUIRES: the slot has no words yet, or was removed.
  void add(Slot slot, std::span<const TermHash> terms);
  void remove(Slot slot) noexcept;
  // Fills `scores`, which must be clear. Repeated query terms count as often as they
  // occur, optional ones (kPartTerm) once; a row that holds a term of the query as a
  // word gains nothing from the same term as an optional one. A query without words
  // finds nothing.
  void score(std::span<const TermHash> query, TermScores& scores) const;
  // How many postings score() goes through.
  [[nodiscard]] std::size_t steps(std::span<const TermHash> query) const;
  // The slots that have a term, valid until the next add or remove; null where none
  // has, and for term 0.
  [[nodiscard]] const PostingList* list_of(TermHash term) const;
  [[nodiscard]] std::size_t terms() const noexcept { return ordinals_.size(); }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  friend class PostingsSnapshot;

  using Ordinal = TermMap::Number;  // index into lists_

  // Adds to the rows of one list; `weight` is that of the term without its idf.
  void score_list(const PostingList& list, float idf, float weight, float mean_length,
                  TermScores& scores) const;
  [[nodiscard]] const PostingList* find(TermHash term) const;
  Ordinal ordinal_of(TermHash term);
  void drop(Ordinal ordinal, Slot slot) noexcept;

  OwnedPages slab_;  // what a snapshot restored; outlives those that lie in it
  TermMap ordinals_;
  std::vector<PostingList> lists_;
  std::vector<TermHash> hashes_;             // of each list
  std::vector<Ordinal> free_;                // lists without a term
  std::vector<SlabArray<Ordinal>> of_slot_;  // the distinct terms of each slot
  std::vector<std::uint32_t> length_;        // words of each slot, without parts
  std::uint64_t total_length_ = 0;
  std::size_t documents_ = 0;   // slots with at least one word
  std::size_t held_bytes_ = 0;  // by all lists, and by the terms of all slots
};

}  // namespace vecall

#pragma once

// The number of each term: open addressing over the terms and their numbers, so that a
// look-up reads one place. Not thread-safe: the partition's lock guards it.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "vecall/types.hpp"

namespace vecall {

class TermMap {
 public:
  using Number = std::uint32_t;
  static constexpr Number kNone = static_cast<Number>(-1);

  // Makes room for so many terms. Strong guarantee; emplace cannot fail afterwards.
  void reserve(std::size_t terms) {
    if (terms * 3 <= places_.size() * 2) return;
    std::vector<Place> grown(std::bit_ceil(terms * 3 / 2 + 1));
    places_.swap(grown);
    for (const Place& place : grown) {
      if (place.number != kNone) place_for(place.term) = place;
    }
  }
  // The number of a term, or kNone.
  [[nodiscard]] Number find(TermHash term) const noexcept {
    if (places_.empty()) return kNone;
    for (std::size_t at = home(term);; at = next(at)) {
      const Place& place = places_[at];
      if (place.number == kNone || place.term == term) return place.number;
    }
  }
  // REQUIRES: reserved, the term is not there.
  void emplace(TermHash term, Number number) noexcept {
    place_for(term) = {term, number};
    ++size_;
  }
  // Closes the gap, so that no marks of the dead pile up (Knuth, "The Art of Computer
  // Programming", volume 3, section 6.4, algorithm R). REQUIRES: the term is there.
  void erase(TermHash term) noexcept {
    std::size_t hole = home(term);
    while (places_[hole].term != term) hole = next(hole);
    for (std::size_t at = next(hole); places_[at].number != kNone; at = next(at)) {
      const std::size_t wanted = home(places_[at].term);
      if (distance(wanted, at) >= distance(hole, at)) {
        places_[hole] = places_[at];
        hole = at;
      }
    }
    places_[hole] = {};
    --size_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return places_.capacity() * sizeof(Place);
  }

 private:
  struct Place {
    TermHash term = 0;
    Number number = kNone;  // where empty
  };

  [[nodiscard]] std::size_t home(TermHash term) const noexcept {
    const std::uint64_t mixed = term * 0x9E37'79B9'7F4A'7C15ULL;
    return static_cast<std::size_t>((mixed ^ (mixed >> 32)) & (places_.size() - 1));
  }
  [[nodiscard]] std::size_t next(std::size_t at) const noexcept {
    return (at + 1) & (places_.size() - 1);
  }
  [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
    return (to - from) & (places_.size() - 1);
  }
  [[nodiscard]] Place& place_for(TermHash term) noexcept {
    std::size_t at = home(term);
    while (places_[at].number != kNone) at = next(at);
    return places_[at];
  }

  std::vector<Place> places_;  // a power of two of them, or none
  std::size_t size_ = 0;
};

}  // namespace vecall

#include "vectors/vector_store.hpp"

#include <algorithm>

namespace vecall {

void VectorStore::reserve(std::size_t slots) {
  rows_.reserve(slots);
  if (slots > present_.size()) present_.resize(slots, 0);
}

void VectorStore::set(Slot slot, std::span<const float> unit) noexcept {
  std::copy(unit.begin(), unit.end(), rows_.row(slot));
  count_ += present_[slot] == 0 ? 1 : 0;
  present_[slot] = 1;
}

void VectorStore::clear(Slot slot) noexcept {
  count_ -= present_[slot];
  present_[slot] = 0;
}

}  // namespace vecall

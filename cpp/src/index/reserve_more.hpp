#pragma once

// Growth of a list of slots by several at once. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "vecall/types.hpp"

namespace vecall {

// Makes room for `more` elements, by doubling: exact growth copies everything each
// time. Strong guarantee.
inline void reserve_more(std::vector<Slot>& slots, std::size_t more) {
  const std::size_t wanted = slots.size() + more;
  if (wanted > slots.capacity()) slots.reserve(std::max(wanted, 2 * slots.size()));
}

}  // namespace vecall

#pragma once

// The names that the rows of one partition carry, as numbers of their own. Not
// thread-safe: the partition's lock guards it.

#include <cstddef>

#include "rows/label_dictionary.hpp"

namespace vecall {

struct Labels {
  LabelDictionary sessions;
  LabelDictionary authors;
  LabelDictionary kinds;

  [[nodiscard]] std::size_t nbytes() const noexcept {
    return sizeof(*this) + sessions.nbytes() + authors.nbytes() + kinds.nbytes();
  }
};

}  // namespace vecall

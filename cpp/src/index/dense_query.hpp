#pragma once

// One question to the vectors of a partition, and the scratch that answering it needs.
// Grown, never freed: a thread's searches allocate nothing once they are warm.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "filter/row_selection.hpp"
#include "index/shortlist.hpp"
#include "index/top_k.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"
#include "vectors/row_codes.hpp"
#include "vectors/sign_codes.hpp"

namespace vecall {

struct DenseQuery {
  const RowTable& rows;
  const RowSelection& selection;
  const EncodedQuery& encoded;
  std::size_t k = 1;   // > 0
  bool exact = false;  // score from float32 vectors where they are stored
  bool want_spread = false;
};

// Rows with their cosines as their signs say.
struct SignedRows {
  std::vector<Slot> slots;
  std::vector<float> estimates;
  std::vector<float> factors;

  void resize(std::size_t size) {
    slots.resize(size);
    estimates.resize(size);
    factors.resize(size);
  }
};

struct DenseScratch {
  std::vector<float> estimates;
  std::vector<std::uint32_t> positions;
  std::vector<float> reach;
  std::vector<double> cosines;
  std::vector<Slot> scored;  // of the block that is offered, already
  std::vector<const std::uint8_t*> codes;
  std::vector<float> factors;
  std::vector<Slot> slots;
  EncodedSigns signs;
  std::vector<std::uint16_t> sums;  // of signs
  std::vector<Slot> near;           // rows that are among the best, as their signs say
  SignedRows maybe;                 // rows that may be
  Shortlist shortlist;
  std::vector<Scored> best;  // the answer, best first
};

}  // namespace vecall

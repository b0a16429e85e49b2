#pragma once

// Estimates of rows anywhere, in blocks. Holds no state.

#include <algorithm>
#include <cstddef>
#include <span>

#include "index/dense_query.hpp"
#include "kernels/dispatch.hpp"

namespace vecall {

inline constexpr std::size_t kBlockRows = 1024;  // their estimates stay in L1

// Calls each(slots, estimates, factors, count) for blocks of the slots.
template <class Each>
void gather(const DenseQuery& query, std::span<const Slot> slots, DenseScratch& scratch,
            Each each) {
  constexpr std::size_t kGathered = 64;  // rows fetched together
  const auto& kernel = kernels::active();
  const RowTable& rows = query.rows;
  const std::size_t bytes = rows.space().high_bytes();
  scratch.estimates.resize(kBlockRows);
  scratch.codes.resize(kBlockRows);
  scratch.factors.resize(kBlockRows);
  for (std::size_t block = 0; block < slots.size(); block += kBlockRows) {
    const std::size_t rows_here = std::min(kBlockRows, slots.size() - block);
    const Slot* here = slots.data() + block;
    for (std::size_t begin = 0; begin < rows_here; begin += kGathered) {
      const std::size_t end = std::min(rows_here, begin + kGathered);
      for (std::size_t i = begin; i < end; ++i) {
        scratch.codes[i] = rows.high(here[i]);
        scratch.factors[i] = rows.factor(here[i]);
        for (std::size_t line = 0; line < bytes; line += 64) {
          __builtin_prefetch(scratch.codes[i] + line);
        }
      }
      kernel.gather(query.encoded.code(), scratch.codes.data() + begin,
                    scratch.factors.data() + begin, end - begin,
                    scratch.estimates.data() + begin);
    }
    each(here, scratch.estimates.data(), scratch.factors.data(), rows_here);
  }
}

}  // namespace vecall

#pragma once

// Estimates of rows that lie one after another and of rows anywhere, by one loop of the
// tier: Estimates::of(query, row_at, factors, count, out), where row_at(i) is where row
// i lies. Include from kernel files only.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"

namespace vecall::kernels {

namespace {

// Of one row, from the sum of its nibbles times the query's values.
[[maybe_unused]] inline float estimate(const CodeQuery& query, std::int32_t sum,
                                       float factor) noexcept {
  return factor * (query.scale * static_cast<float>(2 * sum - query.bias));
}

template <class Estimates>
void scan(const CodeQuery& query, const std::uint8_t* rows, const float* factors,
          std::size_t count, float* out) noexcept {
  const std::size_t bytes = query.width / 2;
  const auto row_at = [rows, bytes](std::size_t i) { return rows + i * bytes; };
  Estimates::of(query, row_at, factors, count, out);
}

template <class Estimates>
void gather(const CodeQuery& query, const std::uint8_t* const* rows,
            const float* factors, std::size_t count, float* out) noexcept {
  const auto row_at = [rows](std::size_t i) { return rows[i]; };
  Estimates::of(query, row_at, factors, count, out);
}

}  // namespace

}  // namespace vecall::kernels

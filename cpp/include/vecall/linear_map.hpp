#pragma once

// A matrix that is multiplied by vectors, one at a time, and scales each product to
// norm 1. A product reads the whole matrix, so the memory's bandwidth bounds it: rows
// are stored as 16-bit integers, half of the bytes of float32. Both sides are rotated,
// which spreads what stands out in single columns, and rounded to 12 bits (the matrix,
// each row by its largest value) and 13 bits (a vector).
//
// Immutable after construction: every method may be called from any thread at any time.

#include <cstddef>
#include <memory>
#include <span>

#include "vecall/wait_hook.hpp"

namespace vecall {

class LinearMap {
 public:
  // Encodes a matrix (rows, columns), which is not needed afterwards. Throws
  // InvalidArgumentError for NaN, Inf or a matrix without rows or columns,
  // LimitExceededError above kMaxDim rows or columns, and ConfigError for a bad
  // VECALL_ISA.
  LinearMap(std::span<const float> matrix, std::size_t columns);
  ~LinearMap();
  LinearMap(LinearMap&& other) noexcept;
  LinearMap& operator=(LinearMap&& other) noexcept;
  LinearMap(const LinearMap&) = delete;
  LinearMap& operator=(const LinearMap&) = delete;

  // Writes the product with each row of `vectors` (n, columns), scaled to norm 1, to
  // `out` (n, rows()). A product of zeros stays zero. All instruction sets give the
  // same bits. Throws InvalidArgumentError for NaN or Inf; `out` may then hold some of
  // the products. REQUIRES: out.size() == n * rows().
  void apply(std::span<const float> vectors, std::span<float> out,
             WaitHook before_wait = {}) const;

  [[nodiscard]] std::size_t rows() const noexcept;
  [[nodiscard]] std::size_t columns() const noexcept;
  // Memory that the codes hold.
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace vecall

#pragma once

// Turns a caller's vector into the form in which it is stored and compared: norm 1, so
// that the cosine of two vectors is their dot product.

#include <span>

namespace vecall {

enum class VectorFault { kNone, kNotFinite, kZero };

// Writes `vector` scaled to norm 1 to `out`; the norm is taken in double. Leaves `out`
// untouched and says why if a value is NaN or infinite, or if the norm is below 1e-30.
// REQUIRES: out.size() == vector.size().
VectorFault normalise(std::span<const float> vector, std::span<float> out) noexcept;

// The same verdict without writing anything.
VectorFault check(std::span<const float> vector) noexcept;

// Throws InvalidArgumentError unless fault is kNone.
void require(VectorFault fault);

}  // namespace vecall

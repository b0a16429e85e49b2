#pragma once

// Turns a caller's vector into the form in which it is stored and compared: norm 1, so
// that the cosine of two vectors is their dot product.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vecall {

enum class VectorFault { kNone, kNotFinite, kZero };

// Writes `vector` scaled to norm 1 to `out`; the norm is taken in double. Leaves `out`
// untouched and says why if a value is NaN or infinite, or if the norm is below 1e-30.
// REQUIRES: out.size() == vector.size().
VectorFault normalise(std::span<const float> vector, std::span<float> out) noexcept;

// Throws InvalidArgumentError, naming the argument, unless fault is kNone.
void require(VectorFault fault, const std::string& argument = "vectors");

// Returns the rows of a (wanted.size(), dim) matrix scaled to norm 1. Rows that are not
// wanted stay zero and are not looked at. Reads each value once, so a caller who
// changes the matrix meanwhile cannot slip a bad value past the check. Throws
// InvalidArgumentError.
std::vector<float> normalised_rows(std::span<const float> matrix, std::size_t dim,
                                   std::span<const std::uint8_t> wanted);

}  // namespace vecall

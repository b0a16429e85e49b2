#pragma once

// Turns a caller's vector into the form in which it is stored and compared: norm 1, so
// that the cosine of two vectors is their dot product.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vecall {

enum class VectorFault { kNone, kNotFinite, kZero };

// Writes `vector` scaled to norm 1 to `out`; the norm is taken in double. Leaves `out`
// untouched and says why if a value is NaN or infinite, or if every value is zero.
// Throws ConfigError for a bad VECALL_ISA. `out` may be the vector itself.
// REQUIRES: out.size() == vector.size().
VectorFault normalise(std::span<const float> vector, std::span<float> out);

// Throws InvalidArgumentError, naming the argument, unless fault is kNone.
void check_fault(VectorFault fault, const std::string& argument = "vectors");

// Throws DimensionError, naming the argument, unless both are equal.
void check_dim(std::size_t got, std::size_t dim,
               const std::string& argument = "vectors");

// Scales a query to norm 1; false for a zero vector, which finds nothing. Throws
// DimensionError and InvalidArgumentError.
bool normalise_query(std::span<const float> query, std::size_t dim,
                     std::vector<float>& unit);

}  // namespace vecall

#pragma once

// The signs of a vector's values, taken from its high plane: one bit a value, by which
// a scan rules out most rows before it reads their planes. The estimate is that of
// RaBitQ (Gao and Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
// Error Bound for Approximate Nearest Neighbor Search", 2024). How signs lie in memory
// says kernels/kernel_table.hpp.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.hpp"
#include "vectors/row_codes.hpp"
#include "vectors/vector_space.hpp"

namespace vecall {

// estimate = sign_factor * sum(sign_i * x_i); 0 where the row's factor is none.
[[nodiscard]] float sign_factor(const VectorSpace& space, const std::uint8_t* high,
                                float factor) noexcept;
// Writes the signs of row `row` of a group.
void put_signs(const VectorSpace& space, const std::uint8_t* high, std::size_t row,
               std::uint8_t* group) noexcept;

// A query in the form that signs are compared with. Keeps its memory between queries;
// one a thread.
class EncodedSigns {
 public:
  struct Table {
    std::uint8_t sums[16];
  };

  // REQUIRES: the space has signs; the query is of a vector.
  void encode(const VectorSpace& space, const EncodedQuery& query);
  [[nodiscard]] const kernels::SignQuery& code() const noexcept { return code_; }

  // A row's cosine is hardly above factor * (estimate / factor + plus(sine)) -
  // minus(sine), where `sine` is the largest of the angles that count.
  struct Reach {
    float plus;
    float minus;
  };
  [[nodiscard]] Reach reach(float sine) const noexcept;
  // What rounding took from the query and from the rows' factors, of 1.
  [[nodiscard]] float rounding() const noexcept { return rounding_; }

 private:
  std::vector<std::int8_t> q5_;
  std::vector<Table> tables_;
  kernels::SignQuery code_;
  float dim_ = 0;
  float rounding_ = 0;
};

}  // namespace vecall

// Every row that has a vector has its signs, however it came to its slot.

#include "rows/sign_plane.hpp"

#include <doctest.h>

#include <vector>

#include "index/index_support.hpp"
#include "vectors/sign_codes.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 130;

// Rows with a vector whose signs are not those of their high plane.
std::size_t wrong_signs(const RowTable& rows) {
  const std::size_t bytes = rows.space().width() / 8;
  std::size_t wrong = 0;
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    if (!rows.has_vector(slot)) continue;
    const SignPlane* signs = rows.signs(slot);
    REQUIRE(signs != nullptr);
    const std::size_t row = slot % kernels::kSignGroup;
    std::vector<std::uint8_t> group(kernels::kSignGroup * bytes);
    put_signs(rows.space(), rows.high(slot), row, group.data());
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t at = i * kernels::kSignGroup + row;
      wrong += signs->groups(slot)[at] != group[at] ? 1 : 0;
    }
    const float factor = sign_factor(rows.space(), rows.high(slot), rows.factor(slot));
    wrong += *signs->factors(slot) != factor ? 1 : 0;
  }
  return wrong;
}

}  // namespace

TEST_CASE("rows have signs from the first whole chunk on") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < 1'000; ++i) rows.add(i);
  CHECK(rows.table().signs(0) == nullptr);
  for (std::uint64_t i = 1'000; i < kChunkRows + 700; ++i) {
    if (i % 9 == 4) {
      rows.add_without_vector(i);
    } else {
      rows.add(i);
    }
  }
  CHECK(wrong_signs(rows.table()) == 0);
  for (Slot slot = 5; slot < rows.table().slots(); slot += 13) {
    rows.table().release(slot);
  }
  for (std::uint64_t i = 0; i < 200; ++i) rows.add(90'000 + i);
  CHECK(wrong_signs(rows.table()) == 0);
}

TEST_CASE("a table without room for signs has none") {
  for (const std::size_t dim : {32U, 127U, 4'160U}) {
    CAPTURE(dim);
    const RowSpace space(dim, Codec::kInt4, false);
    CHECK_FALSE(space.has_signs());
    RowTable rows(space);
    rows.reserve(kChunkRows, false, false);
    CHECK(rows.signs(0) == nullptr);
  }
}

TEST_CASE("rows that get times keep their signs, and take the bytes that they say") {
  VectorRows rows(kDim);
  for (std::uint64_t i = 0; i < kChunkRows; ++i) rows.add(i);
  const std::size_t before = rows.table().nbytes();
  rows.table().reserve(1, true, false);  // one chunk more, and columns for both
  CHECK(wrong_signs(rows.table()) == 0);
  const std::size_t signs = kChunkRows * (rows.space().width() / 8 + sizeof(float));
  const std::size_t columns = rows.table().row_bytes() * kChunkRows;
  CHECK(rows.table().nbytes() >= 2 * (columns + signs));
  CHECK(rows.table().nbytes() < 2 * (columns + signs) + 200);
  CHECK(before > signs);
}

}  // namespace vecall::testing

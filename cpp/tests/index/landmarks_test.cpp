// The sample of rows at which searches of a graph begin.

#include "index/landmarks.hpp"

#include <doctest.h>

#include <set>
#include <vector>

#include "index/index_support.hpp"

namespace vecall::testing {

TEST_CASE("about one row of 16 is a landmark, until there are 1,024 of them") {
  constexpr std::size_t kDim = 33;
  VectorRows rows(kDim);
  Landmarks landmarks;
  std::size_t before = 0;
  for (std::size_t i = 0; i < 24'000; ++i) {
    const Slot slot = rows.add(i % 97);
    landmarks.reserve(rows.table(), 1);
    landmarks.add(rows.table(), slot);
    REQUIRE(landmarks.size() <= Landmarks::kMost);
    if (i == 8'000) {
      before = landmarks.size();
      CHECK(before > 8'000 / 16 / 2);
      CHECK(before < 8'000 / 16 * 2);
    }
  }
  CHECK(landmarks.size() > Landmarks::kMost / 3);
  std::set<Slot> slots;
  std::size_t late = 0;
  for (std::size_t i = 0; i < landmarks.size(); ++i) {
    slots.insert(landmarks.slot(i));
    late += landmarks.slot(i) >= 12'000 ? 1U : 0U;
  }
  CHECK(slots.size() == landmarks.size());
  // Evenly spread, though the first rows were there before the sample was thinned out.
  CHECK(late > landmarks.size() / 3);
  CHECK(late < landmarks.size() * 2 / 3);
}

TEST_CASE("a scan of the landmarks estimates as a scan of their rows does") {
  constexpr std::size_t kDim = 70;
  VectorRows rows(kDim);
  Landmarks landmarks;
  for (std::size_t i = 0; i < 600; ++i) rows.add(i);
  landmarks.reserve(rows.table(), 600);
  for (Slot slot = 0; slot < 600; ++slot) landmarks.add(rows.table(), slot);
  // Twice, as of a slot that was used again: it is there once.
  for (Slot slot = 0; slot < 600; ++slot) landmarks.add(rows.table(), slot);
  const Vector query = unit_vector(1'000, kDim);
  EncodedQuery encoded;
  encoded.encode(rows.space(), query);
  std::vector<float> estimates(landmarks.size());
  landmarks.scan(encoded, estimates.data());
  std::set<Slot> seen;
  for (std::size_t i = 0; i < landmarks.size(); ++i) {
    const Slot slot = landmarks.slot(i);
    CHECK(seen.insert(slot).second);
    const double exact = cosine(query, unit_vector(slot, kDim));
    CHECK(std::abs(static_cast<double>(estimates[i]) - exact) < 0.1);
  }
}

}  // namespace vecall::testing

// The rotation of all vectors: it changes no product, and is the same for one seed.

#include "vectors/rotation.hpp"

#include <doctest.h>

#include <cmath>
#include <vector>

#include "engine_support.hpp"

namespace vecall::testing {

TEST_CASE("a rotation keeps the products of vectors of any length") {
  for (const std::size_t dim : {1UL, 2UL, 3UL, 63UL, 64UL, 100UL, 384UL, 1000UL}) {
    CAPTURE(dim);
    const Rotation rotation(dim, 77);
    Vector a = unit_vector(1, dim);
    Vector b = unit_vector(2, dim);
    const double before = cosine(a, b);
    rotation.apply(a.data());
    rotation.apply(b.data());
    CHECK(cosine(a, b) == doctest::Approx(before).epsilon(1e-5));
    CHECK(cosine(a, a) == doctest::Approx(1.0).epsilon(1e-5));
  }
}

TEST_CASE("one seed gives one rotation, another seed another one") {
  constexpr std::size_t kDim = 96;
  const Vector plain = unit_vector(3, kDim);
  Vector a = plain;
  Vector b = plain;
  Vector c = plain;
  Rotation(kDim, 5).apply(a.data());
  Rotation(kDim, 5).apply(b.data());
  Rotation(kDim, 6).apply(c.data());
  CHECK(a == b);
  CHECK(a != c);
  CHECK(a != plain);
}

TEST_CASE("a rotation spreads what stands out in one dimension") {
  constexpr std::size_t kDim = 384;
  Vector spike(kDim);
  spike[17] = 1.0F;
  Rotation(kDim, 9).apply(spike.data());
  float most = 0;
  for (const float value : spike) most = std::max(most, std::abs(value));
  CHECK(most < 0.5F);
}

TEST_CASE("a rotation of no dimensions holds nothing") {
  const Rotation none(0, 1);
  CHECK(none.nbytes() == 0);
  none.apply(nullptr);
}

}  // namespace vecall::testing

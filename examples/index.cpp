// Nearest neighbours by cosine from C++, without Python: adds vectors, searches them,
// and reads the index back from a file.
//
//   cmake -S cpp -B build/cpp -DVECALL_EXAMPLES=ON && cmake --build build/cpp
//   build/cpp/vecall_example_index

#include <cstdio>
#include <random>
#include <vecall/index.hpp>
#include <vector>

int main() {
  constexpr std::size_t kDim = 128;
  constexpr std::size_t kRows = 10'000;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> vectors(kRows * kDim);
  for (float& value : vectors) value = normal(random);
  std::vector<vecall::RowId> ids(kRows);
  for (std::size_t i = 0; i < kRows; ++i) ids[i] = static_cast<vecall::RowId>(i);

  vecall::Index index(kDim);
  index.add(ids, vectors);
  index.remove(std::vector<vecall::RowId>{7});
  index.save("example.vecall-index");

  const auto copy = vecall::Index::load("example.vecall-index");
  std::remove("example.vecall-index");
  const std::span<const float> query(vectors.data() + 42 * kDim, kDim);
  for (const vecall::Hit& hit : copy.search(query, {.k = 3})) {
    std::printf("%lld %.3f\n", static_cast<long long>(hit.id),
                static_cast<double>(hit.score));
  }
  return copy.size() == kRows - 1 && copy.search(query)[0].id == 42 ? 0 : 1;
}

#pragma once

// What the tests of the engine share: batches of rows, unit vectors that are known by
// their number, and answers that can be compared bit for bit.

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "partition/partition.hpp"
#include "sync/locks.hpp"

namespace vecall::testing {

using Vector = std::vector<float>;

// The same vector of norm 1 for the same number, near to that of no other.
inline Vector unit_vector(std::uint64_t number, std::size_t dim) {
  std::mt19937_64 engine(number * 0x9E37'79B9'7F4A'7C15ULL + 1);
  std::normal_distribution<double> normal;
  std::vector<double> wide(dim);
  double squares = 0;
  for (double& value : wide) {
    value = normal(engine);
    squares += value * value;
  }
  Vector unit;
  for (const double value : wide) {
    unit.push_back(static_cast<float>(value / std::sqrt(squares)));
  }
  return unit;
}

inline double cosine(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

// Puts a batch together row by row.
class Rows {
 public:
  explicit Rows(std::size_t dim) : dim_(dim) {}

  Rows& vector(RowId id, std::uint64_t number) {
    const Vector unit = unit_vector(number, dim_);
    batch_.ids.push_back(id);
    batch_.has_vector.push_back(1);
    vectors_.insert(vectors_.end(), unit.begin(), unit.end());
    return *this;
  }
  // The row that was added last also has these. All rows of a batch or none.
  Rows& meta(const RowMeta& meta, std::initializer_list<TermHash> terms) {
    if (batch_.offsets.empty()) batch_.offsets.push_back(0);
    batch_.meta.push_back(meta);
    batch_.terms.insert(batch_.terms.end(), terms);
    batch_.offsets.push_back(static_cast<std::int64_t>(batch_.terms.size()));
    return *this;
  }
  // Borrows the vectors of these rows.
  operator RowBatch() const {  // NOLINT(google-explicit-constructor)
    RowBatch batch = batch_;
    batch.vectors = vectors_;
    return batch;
  }
  [[nodiscard]] RowBatch batch() const { return *this; }

 private:
  std::size_t dim_;
  RowBatch batch_;
  std::vector<float> vectors_;
};

inline Ref<const PartitionSpace> make_space(std::size_t dim,
                                            const GraphOptions& graph = {}) {
  Options options;
  options.graph = graph;
  return make_ref<const PartitionSpace>(dim, options);
}

inline std::vector<Hit> search(const Partition& partition, std::span<const float> query,
                               std::size_t k, bool exact = false) {
  std::vector<Hit> hits;
  const ReaderLock lock(partition.mutex());
  partition.search({query, k, 64, exact, {}}, hits);
  return hits;
}

inline std::vector<RecallHit> recall(const Partition& partition,
                                     std::span<const float> query,
                                     std::span<const TermHash> terms, std::size_t k) {
  std::vector<RecallHit> hits;
  RecallQuery request;
  request.unit_vector = query;
  request.terms = terms;
  request.k = k;
  const ReaderLock lock(partition.mutex());
  partition.recall(request, hits);
  return hits;
}

}  // namespace vecall::testing

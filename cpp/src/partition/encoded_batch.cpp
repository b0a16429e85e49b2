#include "partition/encoded_batch.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

void check_sizes(const RowBatch& batch, std::size_t dim) {
  const std::size_t count = batch.ids.size();
  if (!batch.meta.empty() && batch.meta.size() != count) {
    throw InvalidArgumentError("rows: every id needs one entry in each column");
  }
  if (!batch.offsets.empty() || !batch.terms.empty()) {
    bool ordered =
        batch.offsets.size() == count + 1 && batch.offsets.front() == 0 &&
        batch.offsets.back() == static_cast<std::int64_t>(batch.terms.size());
    for (std::size_t i = 0; ordered && i < count; ++i) {
      ordered = batch.offsets[i] <= batch.offsets[i + 1];
    }
    if (!ordered) {
      throw InvalidArgumentError(
          "offsets: must be n + 1 increasing positions from 0 to len(terms)");
    }
  }
  const std::size_t vectors = batch.has_vector.empty() ? 0 : count;
  if (batch.has_vector.size() != vectors || batch.vectors.size() != vectors * dim) {
    throw DimensionError("vectors: every id needs one vector of the index's dimension");
  }
}

const RowBatch& checked(const RowBatch& batch, std::size_t dim) {
  check_sizes(batch, dim);
  return batch;
}

// Of rows with one id the last.
std::vector<std::size_t> rows_of(const std::vector<RowId>& ids) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool increasing =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  if (increasing) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&ids](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
  const auto last = [&](std::size_t i) {
    return i + 1 == order.size() || ids[order[i]] != ids[order[i + 1]];
  };
  std::size_t unique = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (last(i)) order[unique++] = order[i];
  }
  order.resize(unique);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

EncodedBatch::EncodedBatch(const RowSpace& space, const RowBatch& batch)
    : batch_(checked(batch, space.dim())),
      rows_(rows_of(batch.ids)),
      codes_(space, batch.vectors, batch.has_vector) {}

}  // namespace vecall

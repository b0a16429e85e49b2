#include "index/flat_index.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.hpp"

namespace vecall {

namespace {

constexpr std::size_t kBlockRows = 256;  // their cosines stay in L1 until they are read

class Spread {
 public:
  void add(float cosine) noexcept {
    sum_ += cosine;
    squares_ += static_cast<double>(cosine) * cosine;
    ++count_;
  }
  [[nodiscard]] CosineSpread result() const noexcept {
    if (count_ == 0) return {};
    const double mean = sum_ / static_cast<double>(count_);
    const double variance = squares_ / static_cast<double>(count_) - mean * mean;
    return {mean, std::sqrt(std::max(variance, 0.0))};
  }

 private:
  double sum_ = 0;
  double squares_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

CosineSpread flat_search(const VectorStore& vectors, const RowColumns& rows,
                         std::span<const float> unit_query, const Filter& filter,
                         std::size_t k, std::vector<Scored>& best,
                         std::vector<float>& cosines) {
  TopK top(best, k, rows);
  Spread spread;
  const auto& kernel = kernels::active();
  const AlignedRows& matrix = vectors.rows();
  const std::size_t slots = rows.slots();
  if (cosines.size() < slots) cosines.resize(slots);
  const bool every_row = rows.all_pass(filter) && vectors.count() == slots;
  for (std::size_t begin = 0; begin < slots; begin += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, slots - begin);
    kernel.dot_rows(unit_query.data(), matrix.row(begin), count, matrix.dim(),
                    matrix.stride(), cosines.data() + begin);
    for (std::size_t i = 0; i < count; ++i) {
      const auto slot = static_cast<Slot>(begin + i);
      if (!every_row && !(rows.passes(slot, filter) && vectors.has(slot))) continue;
      const float cosine = std::clamp(cosines[slot], -1.0F, 1.0F);
      cosines[slot] = cosine;
      spread.add(cosine);
      if (top.wants(cosine)) top.offer({slot, cosine});
    }
  }
  top.finish();
  return spread.result();
}

}  // namespace vecall

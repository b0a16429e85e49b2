#pragma once

// A growing matrix of float32 rows, each starting on a cache line and zero-padded to a
// whole number of them. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <memory>
#include <span>

namespace vecall {

class AlignedRows {
 public:
  explicit AlignedRows(std::size_t dim);

  // Makes room for `count` rows in all; new rows are zero. Strong guarantee.
  void reserve(std::size_t count);
  // REQUIRES: row < capacity().
  [[nodiscard]] float* row(std::size_t row) noexcept {
    return data_.get() + row * stride_;
  }
  [[nodiscard]] const float* row(std::size_t row) const noexcept {
    return data_.get() + row * stride_;
  }
  [[nodiscard]] std::size_t dim() const noexcept { return dim_; }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }  // floats
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return capacity_ * stride_ * sizeof(float);
  }

 private:
  struct Free {
    void operator()(float* data) const noexcept;
  };

  std::size_t dim_;
  std::size_t stride_;
  std::size_t capacity_ = 0;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace vecall

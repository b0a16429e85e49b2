#include "vectors/aligned_rows.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace vecall {

namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLineFloats = kLineBytes / sizeof(float);
constexpr std::size_t kFirstRows = 8;

}  // namespace

void AlignedRows::Free::operator()(float* data) const noexcept {
  ::operator delete[](data, std::align_val_t{kLineBytes});
}

AlignedRows::AlignedRows(std::size_t dim)
    : dim_(dim), stride_((dim + kLineFloats - 1) / kLineFloats * kLineFloats) {}

void AlignedRows::reserve(std::size_t count) {
  if (count <= capacity_ || stride_ == 0) return;
  const std::size_t grown = std::max({count, capacity_ + capacity_ / 2, kFirstRows});
  if (grown > std::numeric_limits<std::size_t>::max() / (stride_ * sizeof(float))) {
    throw std::bad_alloc();
  }
  const std::size_t bytes = grown * stride_ * sizeof(float);
  std::unique_ptr<float[], Free> data(
      static_cast<float*>(::operator new[](bytes, std::align_val_t{kLineBytes})));
  if (capacity_ > 0) std::memcpy(data.get(), data_.get(), nbytes());
  std::memset(data.get() + capacity_ * stride_, 0, bytes - nbytes());
  data_ = std::move(data);
  capacity_ = grown;
}

}  // namespace vecall

#pragma once

// The bytes of a snapshot where its sections can be read as arrays.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vecall {

// The caller's bytes if they are aligned, else a copy of them. The caller's bytes must
// outlive the object and not change meanwhile.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const std::byte> bytes) : view_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint64_t) == 0) {
      return;
    }
    copy_.assign(bytes.begin(), bytes.end());
    view_ = copy_;
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() = default;

  [[nodiscard]] std::span<const std::byte> view() const noexcept { return view_; }

 private:
  std::span<const std::byte> view_;
  std::vector<std::byte> copy_;
};

}  // namespace vecall

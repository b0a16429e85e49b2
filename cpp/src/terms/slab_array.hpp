#pragma once

// An array in memory of its own, or in a part of a slab that many share: what a
// snapshot restores is one allocation. Used as std::vector is, of numbers alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vecall {

template <class T>
class SlabArray {
 public:
  SlabArray() = default;
  // With room in a slab that outlives it, or without room where that is null. The slab
  // has the first `size` elements, at the latest when they are read.
  SlabArray(T* slab, std::size_t room, std::size_t size = 0) noexcept
      : its_{slab, static_cast<std::uint32_t>(size),
             slab == nullptr ? 0 : static_cast<std::uint32_t>(room) & kMostRoom, 0} {}
  SlabArray(SlabArray&& other) noexcept { std::swap(its_, other.its_); }
  SlabArray& operator=(SlabArray&& other) noexcept {
    std::swap(its_, other.its_);
    other.clear();
    return *this;
  }
  SlabArray(const SlabArray&) = delete;
  SlabArray& operator=(const SlabArray&) = delete;
  ~SlabArray() { clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return its_.size; }
  [[nodiscard]] std::size_t capacity() const noexcept { return its_.room; }
  // Of its own.
  [[nodiscard]] std::size_t nbytes() const noexcept {
    return its_.is_own == 0 ? 0 : its_.room * sizeof(T);
  }
  [[nodiscard]] bool empty() const noexcept { return its_.size == 0; }
  [[nodiscard]] const T* data() const noexcept { return its_.data; }
  [[nodiscard]] const T* begin() const noexcept { return its_.data; }
  [[nodiscard]] const T* end() const noexcept { return its_.data + its_.size; }
  [[nodiscard]] const T& front() const noexcept { return its_.data[0]; }
  [[nodiscard]] const T& operator[](std::size_t at) const noexcept {
    return its_.data[at];
  }

  // Strong guarantee.
  void reserve(std::size_t room) {
    if (room <= its_.room) return;
    SlabArray grown(new T[room], room);
    grown.its_.is_own = 1;
    grown.assign(begin(), end());
    *this = std::move(grown);
  }
  // REQUIRES: there is room.
  void assign(const T* first, const T* last) noexcept {
    std::copy(first, last, its_.data);
    its_.size = static_cast<std::uint32_t>(last - first);
  }
  // REQUIRES: there is room.
  void push_back(T value) noexcept { its_.data[its_.size++] = value; }
  // Strong guarantee.
  void insert(std::size_t at, T value) {
    if (its_.size == its_.room) reserve(std::max<std::size_t>(1, size() * 2));
    std::copy_backward(begin() + at, end(), its_.data + its_.size + 1);
    its_.data[at] = value;
    ++its_.size;
  }
  void erase(std::size_t at) noexcept {
    std::copy(begin() + at + 1, end(), its_.data + at);
    --its_.size;
  }
  // REQUIRES: `size` is not above size().
  void resize(std::size_t size) noexcept {
    its_.size = static_cast<std::uint32_t>(size);
  }
  // Frees memory of its own; room in a slab stays.
  void clear() noexcept {
    its_.size = 0;
    if (its_.is_own == 0) return;
    delete[] its_.data;
    its_ = {};
  }

 private:
  static constexpr std::uint32_t kMostRoom = 0x7FFF'FFFF;

  struct Parts {
    T* data = nullptr;
    std::uint32_t size = 0;
    std::uint32_t room : 31 = 0;
    std::uint32_t is_own : 1 = 0;
  };

  Parts its_;
};

}  // namespace vecall

#pragma once

// What the kernel tests share: buffers that cannot be overrun in silence, the tiers of
// this machine, and codes read value by value from the description of their layout.

#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/dispatch.hpp"

namespace vecall::testing {

#if defined(_WIN32)
inline std::size_t page_size() {
  SYSTEM_INFO about;
  ::GetSystemInfo(&about);
  return about.dwPageSize;
}
// Pages that must not be touched; null if there are none.
inline void* map_pages(std::size_t bytes) {
  return ::VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
}
inline bool open_pages(void* begin, std::size_t bytes) {
  DWORD before = 0;
  return ::VirtualProtect(begin, bytes, PAGE_READWRITE, &before) != 0;
}
inline void unmap_pages(void* begin, std::size_t) {
  ::VirtualFree(begin, 0, MEM_RELEASE);
}
#else
inline std::size_t page_size() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}
// Pages that must not be touched; null if there are none.
inline void* map_pages(std::size_t bytes) {
  void* begin = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return begin == MAP_FAILED ? nullptr : begin;
}
inline bool open_pages(void* begin, std::size_t bytes) {
  return ::mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0;
}
inline void unmap_pages(void* begin, std::size_t bytes) {
  ::munmap(begin, bytes);
}
#endif

// Where a buffer lies between its two untouchable pages: it ends `slack` elements
// before the second, which takes away its alignment, or it begins right after the
// first.
struct Place {
  std::size_t slack = 0;
  bool at_begin = false;
};

inline constexpr Place kPlaces[] = {{}, {.slack = 1}, {.at_begin = true}};

// `count` elements between two pages that must not be touched: a kernel that reads or
// writes past the end that lies at a page ends the process.
template <class T>
class Guarded {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  explicit Guarded(std::size_t count, Place place = {}) : count_(count), place_(place) {
    const std::size_t page = page_size();
    const std::size_t bytes = (count + place.slack) * sizeof(T);
    const std::size_t inner = (bytes + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    mapped_ = map_pages(mapped_bytes_);
    if (mapped_ == nullptr) throw std::runtime_error("no pages");
    std::byte* begin = static_cast<std::byte*>(mapped_) + page;
    if (inner > 0 && !open_pages(begin, inner)) {
      unmap_pages(mapped_, mapped_bytes_);
      throw std::runtime_error("the pages cannot be opened");
    }
    data_ = reinterpret_cast<T*>(place.at_begin ? begin : begin + inner - bytes);
  }
  explicit Guarded(const std::vector<T>& values, Place place = {})
      : Guarded(values.size(), place) {
    std::copy(values.begin(), values.end(), data_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { unmap_pages(mapped_, mapped_bytes_); }

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::span<T> all() const noexcept { return {data_, count_}; }
  // Those `count` elements that lie at the page.
  [[nodiscard]] std::span<T> at_page(std::size_t count) const noexcept {
    return place_.at_begin ? all().first(count) : all().last(count);
  }

 private:
  std::size_t count_;
  Place place_;
  std::size_t mapped_bytes_ = 0;
  void* mapped_ = nullptr;
  T* data_ = nullptr;
};

// Every instruction set that runs here, best first, its empty slots filled.
inline std::vector<const kernels::KernelTable*> tiers() {
  std::vector<const kernels::KernelTable*> tables;
  for (const auto name : kernels::runnable()) {
    tables.push_back(&kernels::table_of(name));
  }
  return tables;
}

inline std::string name_of(const kernels::KernelTable& tier) {
  return tier.name;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // A whole number from low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  // A value of a normal distribution.
  float normal() { return normal_(engine_); }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

// Value i of a nibble plane, from the description in kernel_table.hpp.
inline std::int64_t nibble_at(const std::uint8_t* plane, std::size_t i,
                              std::size_t width) {
  const std::size_t begin = i / 128 * 128;
  const std::size_t half = std::min<std::size_t>(128, width - begin) / 2;
  const std::size_t within = i - begin;
  const std::uint8_t byte = plane[begin / 2 + within % half];
  return within < half ? byte % 16 : byte / 16;
}

// The widths that every kernel of codes is tested with.
inline std::vector<std::size_t> code_widths() {
  std::vector<std::size_t> widths;
  for (std::size_t width = 64; width <= 1536; width += 64) widths.push_back(width);
  widths.insert(widths.end(), {3072, 4096, 65536});
  return widths;
}

inline constexpr std::size_t kSame = std::numeric_limits<std::size_t>::max();

// Where two runs of floats first differ in their bits, or kSame.
inline std::size_t first_difference(std::span<const float> a,
                                    std::span<const float> b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) {
      return i;
    }
  }
  return kSame;
}

}  // namespace vecall::testing

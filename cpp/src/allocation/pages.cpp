#include "allocation/pages.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace vecall {

namespace {

constexpr std::size_t kTwoLines = 128;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

#if defined(_WIN32)
// What it returns cannot be freed by std::free, so everything comes from it.
void* allocate(std::size_t alignment, std::size_t bytes) noexcept {
  return _aligned_malloc(bytes, alignment);
}
#else
void* allocate(std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}
#endif

}  // namespace

void* allocate_pages(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kTwoLines;
  const std::size_t whole = (bytes + kTwoLines - 1) / kTwoLines * kTwoLines;
  void* pages = allocate(alignment, whole == 0 ? kTwoLines : whole);
  if (pages == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  // Whole huge pages alone: the rest would take memory that is not used.
  if (whole >= kHugePage) {
    madvise(pages, whole / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return pages;
}

void* allocate_bytes(std::size_t bytes) {
  void* memory = allocate(alignof(std::max_align_t), std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void free_pages(void* pages) noexcept {
#if defined(_WIN32)
  _aligned_free(pages);
#else
  std::free(pages);
#endif
}

}  // namespace vecall

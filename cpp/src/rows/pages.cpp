#include "rows/pages.hpp"

#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace vecall {

namespace {

constexpr std::size_t kTwoLines = 128;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void* allocate_pages(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kTwoLines;
  const std::size_t whole = (bytes + kTwoLines - 1) / kTwoLines * kTwoLines;
  void* pages = nullptr;
  if (posix_memalign(&pages, alignment, whole == 0 ? kTwoLines : whole) != 0) {
    throw std::bad_alloc();
  }
#if defined(MADV_HUGEPAGE)
  // Whole huge pages alone: the rest would take memory that is not used.
  if (whole >= kHugePage) {
    madvise(pages, whole / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
#endif
  return pages;
}

}  // namespace vecall

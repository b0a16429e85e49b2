#pragma once

// Memory for large arrays that are read at random: on huge pages where the system gives
// them, since a search of a graph would else miss the page table's cache at every row.
// Any thread may allocate at any time.

#include <cstddef>
#include <memory>

namespace vecall {

// Aligned to two cache lines at least, to be freed by `free_pages`. Throws
// std::bad_alloc.
void* allocate_pages(std::size_t bytes);

// Less than a page, without that alignment, to be freed by `free_pages`. Throws
// std::bad_alloc.
void* allocate_bytes(std::size_t bytes);

void free_pages(void* pages) noexcept;

struct FreePages {
  void operator()(std::byte* pages) const noexcept { free_pages(pages); }
};
using OwnedPages = std::unique_ptr<std::byte, FreePages>;

}  // namespace vecall

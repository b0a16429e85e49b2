#pragma once

// Puts the bytes of a snapshot together. Not thread-safe: one a snapshot.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "snapshot/snapshot_format.hpp"

namespace vecall {

class SnapshotWriter {
 public:
  // `expected` bytes are allocated at once.
  SnapshotWriter(const SnapshotHeader& header, std::size_t expected);

  // Adds a section of zeros for the caller to fill before the next call.
  std::byte* add(Section kind, std::size_t bytes);
  template <class T>
  T* add_array(Section kind, std::size_t count) {
    return reinterpret_cast<T*>(add(kind, count * sizeof(T)));
  }
  // Writes header, table and checksums.
  std::vector<std::byte> finish() &&;

  [[nodiscard]] SnapshotHeader& header() noexcept { return header_; }

 private:
  SnapshotHeader header_;
  std::vector<SectionEntry> table_;
  std::vector<std::byte> bytes_;
};

}  // namespace vecall

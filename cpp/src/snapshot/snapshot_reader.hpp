#pragma once

// Reads the bytes of a snapshot and believes none of them: every length and checksum is
// verified before a section is handed out. What the sections say is for their owners to
// verify. Of a snapshot that stays mapped, only what verified() was asked for is read.

#include <cstddef>
#include <cstdint>
#include <span>

#include "snapshot/snapshot_format.hpp"

namespace vecall {

// Throws CorruptDataError; `what` is wrong with the snapshot.
[[noreturn]] void refuse_snapshot(const char* what);

class SnapshotReader {
 public:
  // `bytes` is borrowed, not copied; it outlives the reader. Immutable after
  // construction. Throws IncompatibleDataError for bytes of something
  // else or of another version, CorruptDataError for damaged ones.
  explicit SnapshotReader(std::span<const std::byte> bytes, bool stays_mapped = false);

  [[nodiscard]] const SnapshotHeader& header() const noexcept { return header_; }
  // Whether array() hands out what stays valid, and is not verified but for its length.
  [[nodiscard]] bool stays_mapped() const noexcept { return stays_mapped_; }
  [[nodiscard]] bool has(Section kind) const noexcept;
  // How many T a section holds. Throws unless it is there and a whole number of them.
  template <class T>
  [[nodiscard]] std::size_t count(Section kind) const {
    const std::size_t bytes = find(kind).size();
    if (bytes % sizeof(T) != 0) refuse_snapshot("a section has a broken length");
    return bytes / sizeof(T);
  }
  // A section, which must hold exactly `count` elements of T.
  template <class T>
  [[nodiscard]] std::span<const T> array(Section kind, std::size_t count,
                                         bool verify = false) const {
    const std::span<const std::byte> bytes = find(kind, verify && stays_mapped_);
    if (bytes.size() != count * sizeof(T)) {
      refuse_snapshot("a section has another length than its rows need");
    }
    return {reinterpret_cast<const T*>(bytes.data()), count};
  }

  // The same, read and verified in any case.
  template <class T>
  [[nodiscard]] std::span<const T> verified(Section kind, std::size_t count) const {
    return array<T>(kind, count, true);
  }

 private:
  void check_front() const;
  [[nodiscard]] std::span<const std::byte> find(Section kind,
                                                bool verify = false) const;

  std::span<const std::byte> bytes_;
  bool stays_mapped_;
  SnapshotHeader header_ = {};
  SectionEntry table_[kMostSections] = {};
};

}  // namespace vecall

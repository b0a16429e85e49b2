#include "snapshot/snapshot_reader.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/dispatch.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

const std::uint8_t* unsigned_bytes(const std::byte* bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}

void check_sum(std::span<const std::byte> section, std::uint32_t wanted) {
  const std::uint32_t crc =
      kernels::active().crc32c(0, unsigned_bytes(section.data()), section.size());
  if (crc != wanted) refuse_snapshot("a section fails its checksum");
}

bool all_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

void refuse_snapshot(const char* what) {
  throw CorruptDataError(std::string("snapshot: ") + what);
}

SnapshotReader::SnapshotReader(std::span<const std::byte> bytes, bool stays_mapped)
    : bytes_(bytes), stays_mapped_(stays_mapped) {
  if (bytes.size() < sizeof(header_.magic) ||
      std::memcmp(bytes.data(), SnapshotHeader::kMagic, sizeof(header_.magic)) != 0) {
    throw IncompatibleDataError("snapshot: these bytes are no snapshot of vecall");
  }
  if (bytes.size() < kSnapshotFront) refuse_snapshot("cut off in its header");
  std::memcpy(&header_, bytes.data(), sizeof(header_));
  std::memcpy(table_, bytes.data() + sizeof(header_), sizeof(table_));
  check_front();
  std::size_t at = kSnapshotFront;
  for (std::size_t i = 0; i < header_.sections; ++i) {
    const SectionEntry& entry = table_[i];
    const std::size_t left = bytes.size() - at;
    if (entry.bytes > left || padded_section(entry.bytes) > left) {
      refuse_snapshot("cut off in a section");
    }
    const std::size_t end = padded_section(entry.bytes);
    if (!stays_mapped) check_sum(bytes.subspan(at, entry.bytes), entry.crc);
    if (!stays_mapped &&
        !all_zero(bytes.subspan(at + entry.bytes, end - entry.bytes))) {
      refuse_snapshot("bytes between sections are not zero");
    }
    at += end;
  }
  if (at != bytes.size()) refuse_snapshot("bytes follow the last section");
}

void SnapshotReader::check_front() const {
  const auto crc32c = kernels::active().crc32c;
  SnapshotHeader blank = header_;
  blank.crc = 0;
  std::uint32_t crc =
      crc32c(0, reinterpret_cast<const std::uint8_t*>(&blank), sizeof(blank));
  crc = crc32c(crc, reinterpret_cast<const std::uint8_t*>(table_), sizeof(table_));
  if (header_.version != SnapshotHeader::kVersion) {
    throw IncompatibleDataError(
        "snapshot: has version " + std::to_string(header_.version) +
        ", this vecall reads " + std::to_string(SnapshotHeader::kVersion));
  }
  if (header_.byte_order != SnapshotHeader::kByteOrder) {
    throw IncompatibleDataError("snapshot: was written in another byte order");
  }
  if (crc != header_.crc) refuse_snapshot("the header fails its checksum");
  if (header_.sections > kMostSections) refuse_snapshot("too many sections");
}

bool SnapshotReader::has(Section kind) const noexcept {
  return std::any_of(table_, table_ + header_.sections,
                     [kind](const SectionEntry& entry) { return entry.kind == kind; });
}

std::span<const std::byte> SnapshotReader::find(Section kind, bool verify) const {
  std::size_t at = kSnapshotFront;
  for (std::size_t i = 0; i < header_.sections; ++i) {
    if (table_[i].kind == kind) {
      const std::span<const std::byte> section = bytes_.subspan(at, table_[i].bytes);
      if (verify) check_sum(section, table_[i].crc);
      return section;
    }
    at += padded_section(table_[i].bytes);
  }
  refuse_snapshot("a section is missing");
}

}  // namespace vecall

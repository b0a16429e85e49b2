#include "snapshot/snapshot_writer.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.hpp"

namespace vecall {

SnapshotWriter::SnapshotWriter(const SnapshotHeader& header, std::size_t expected)
    : header_(header) {
  bytes_.reserve(std::max(expected, kSnapshotFront));
  bytes_.resize(kSnapshotFront);
}

std::byte* SnapshotWriter::add(Section kind, std::size_t bytes) {
  const std::size_t begin = bytes_.size();
  table_.push_back({kind, 0, bytes});
  bytes_.resize(begin + padded_section(bytes));
  return bytes_.data() + begin;
}

std::vector<std::byte> SnapshotWriter::finish() && {
  const auto crc32c = kernels::active().crc32c;
  const auto* at =
      reinterpret_cast<const std::uint8_t*>(bytes_.data()) + kSnapshotFront;
  for (SectionEntry& entry : table_) {
    entry.crc = crc32c(0, at, entry.bytes);
    at += padded_section(entry.bytes);
  }
  header_.sections = static_cast<std::uint32_t>(table_.size());
  header_.crc = 0;
  std::memcpy(bytes_.data(), &header_, sizeof(header_));
  if (!table_.empty()) {
    std::memcpy(bytes_.data() + sizeof(header_), table_.data(),
                table_.size() * sizeof(SectionEntry));
  }
  header_.crc =
      crc32c(0, reinterpret_cast<const std::uint8_t*>(bytes_.data()), kSnapshotFront);
  std::memcpy(bytes_.data(), &header_, sizeof(header_));
  return std::move(bytes_);
}

}  // namespace vecall

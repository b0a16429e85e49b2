#pragma once

// The bytes of a snapshot: a partition as a cache of itself, to be loaded in one go.
// docs/reference/snapshot-format.md describes every field. Little-endian; sections
// follow the header in the order of its table, each padded with zeros to
// kSectionAlignment.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace vecall {

static_assert(std::endian::native == std::endian::little,
              "snapshots are written as they lie in memory");

enum class Section : std::uint32_t {
  kHigh = 1,  // planes, (slots, bytes a row)
  kLow = 2,
  kRest = 3,
  kFloats = 4,       // float32 (slots, padded dim)
  kFactors = 5,      // float32 (slots,)
  kSteps = 6,        // float32 (slots,)
  kFlags = 7,        // uint8 (slots,), RowFlag
  kIds = 8,          // int64 (slots,)
  kTimes = 9,        // int64 (slots,)
  kExpiries = 10,    // int64 (slots,)
  kSessions = 11,    // uint64 (slots,), hash of the name
  kPositions = 12,   // int32 (slots,), no longer written: kPlaces has them
  kAuthors = 13,     // uint64 (slots,)
  kKinds = 14,       // uint64 (slots,)
  kTerms = 15,       // uint64 (terms,), ascending
  kHolders = 16,     // uint32 (terms,), how many rows have each
  kPostings = 17,    // {uint32 slot, uint32 count} (sum of holders,)
  kLinks = 18,       // uint32 (slots, 2 m), ended by 0xFFFFFFFF
  kUpperLinks = 19,  // uint32 (lists, m), by slot and level
  kPlaces = 20,      // float64 (slots,), position in the session, NaN for none
  kCopies = 21       // uint16 (chunks, 2, 4096), where asked for: index/copies.hpp
};
inline constexpr std::size_t kMostSections = 24;

// What is known of a slot.
enum RowFlag : std::uint8_t {
  kFlagLive = 1,
  kFlagVector = 2,
  kFlagPending = 4,  // has a vector that the graph does not answer for
  kFlagLinked = 8    // stands in the graph, live or not
};

struct SnapshotHeader {
  static constexpr char kMagic[8] = {'v', 'e', 'c', 'a', 'l', 'l', 'S', '1'};
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint32_t kByteOrder = 0x0102'0304;
  static constexpr std::size_t kTagBytes = 48;

  char magic[8];
  std::uint32_t version;
  std::uint32_t byte_order;
  std::uint32_t dim;
  std::uint8_t codec;         // Codec
  std::uint8_t keep_float32;  // 0 or 1
  std::uint8_t kind;          // IndexKind
  std::uint8_t has_meta;      // 0 or 1
  std::uint32_t slots;
  std::uint32_t m;
  std::uint32_t ef_construction;
  std::uint32_t has_graph;  // 0 or 1
  std::uint64_t flat_bytes;
  std::uint64_t rotation_seed;
  std::uint32_t entry;  // slot where searches of the graph begin, or 0xFFFFFFFF
  std::uint32_t entry_level;
  std::uint8_t tag[kTagBytes];  // the owner's, to know what the snapshot is of
  std::uint32_t sections;
  std::uint32_t reserved[2];
  std::uint32_t crc;  // CRC-32C of header and table, this field taken as 0
};
static_assert(sizeof(SnapshotHeader) == 128);
static_assert(std::is_trivially_copyable_v<SnapshotHeader>);

struct SectionEntry {
  Section kind;
  std::uint32_t crc;  // CRC-32C of the section without its padding
  std::uint64_t bytes;
};
static_assert(sizeof(SectionEntry) == 16);

inline constexpr std::size_t kSnapshotFront =
    sizeof(SnapshotHeader) + kMostSections * sizeof(SectionEntry);
inline constexpr std::size_t kSectionAlignment = 64;

constexpr std::size_t padded_section(std::size_t bytes) noexcept {
  return (bytes + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

}  // namespace vecall

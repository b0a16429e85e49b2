// Bytes of a snapshot: read as they were written, refused where any of them is changed.

#include "snapshot/snapshot_reader.hpp"

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/dispatch.hpp"
#include "snapshot/snapshot_writer.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::testing {

namespace {

SnapshotHeader header_of(std::uint32_t slots) {
  SnapshotHeader header = {};
  std::copy(std::begin(SnapshotHeader::kMagic), std::end(SnapshotHeader::kMagic),
            std::begin(header.magic));
  header.version = SnapshotHeader::kVersion;
  header.byte_order = SnapshotHeader::kByteOrder;
  header.slots = slots;
  return header;
}

// Two sections and an empty one; the first is no multiple of the alignment.
std::vector<std::byte> written() {
  SnapshotWriter writer(header_of(3), 0);
  auto* ids = writer.add_array<std::int64_t>(Section::kIds, 3);
  for (std::int64_t i = 0; i < 3; ++i) ids[i] = 100 + i;
  writer.add(Section::kFlags, 0);
  auto* steps = writer.add_array<float>(Section::kSteps, 40);
  for (int i = 0; i < 40; ++i) steps[i] = static_cast<float>(i) / 4.0F;
  return std::move(writer).finish();
}

void read(std::span<const std::byte> bytes) {
  const SnapshotReader reader(bytes);
  static_cast<void>(reader);
}

bool is_refused(std::span<const std::byte> bytes) {
  try {
    read(bytes);
    return false;
  } catch (const CorruptDataError&) {
    return true;
  } catch (const IncompatibleDataError&) {
    return true;
  }
}

}  // namespace

TEST_CASE("sections come back as they were written") {
  const std::vector<std::byte> bytes = written();
  const SnapshotReader reader(bytes);
  CHECK(reader.header().slots == 3);
  CHECK(reader.header().sections == 3);
  CHECK(reader.count<std::int64_t>(Section::kIds) == 3);
  const auto ids = reader.array<std::int64_t>(Section::kIds, 3);
  CHECK(std::vector(ids.begin(), ids.end()) ==
        std::vector<std::int64_t>{100, 101, 102});
  CHECK(reader.array<float>(Section::kSteps, 40)[39] == 9.75F);
  CHECK(reader.has(Section::kFlags));
  CHECK(reader.count<std::uint8_t>(Section::kFlags) == 0);
}

TEST_CASE("a section that is missing or of another length is refused") {
  const std::vector<std::byte> bytes = written();
  const SnapshotReader reader(bytes);
  CHECK_FALSE(reader.has(Section::kTimes));
  CHECK_THROWS_AS(static_cast<void>(reader.count<Micros>(Section::kTimes)),
                  CorruptDataError);
  CHECK_THROWS_AS(static_cast<void>(reader.array<Micros>(Section::kIds, 2)),
                  CorruptDataError);
  CHECK_THROWS_AS(static_cast<void>(reader.array<Micros>(Section::kIds, 4)),
                  CorruptDataError);
  struct Odd {
    char bytes[7];
  };
  CHECK_THROWS_AS(static_cast<void>(reader.count<Odd>(Section::kIds)),
                  CorruptDataError);
}

TEST_CASE("a snapshot without sections is read") {
  const std::vector<std::byte> bytes = SnapshotWriter(header_of(0), 0).finish();
  const SnapshotReader reader(bytes);
  CHECK(reader.header().sections == 0);
  CHECK_FALSE(reader.has(Section::kIds));
}

TEST_CASE("every changed bit is refused") {
  std::vector<std::byte> bytes = written();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const std::byte bit : {std::byte{1}, std::byte{128}}) {
      bytes[at] ^= bit;
      CAPTURE(at);
      REQUIRE(is_refused(bytes));
      bytes[at] ^= bit;
    }
  }
  CHECK_FALSE(is_refused(bytes));
}

TEST_CASE("a snapshot that is cut off or too long is refused") {
  std::vector<std::byte> bytes = written();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    REQUIRE(is_refused(std::span(bytes).first(size)));
  }
  bytes.push_back(std::byte{0});
  CHECK(is_refused(bytes));
}

TEST_CASE("other bytes and other versions are incompatible, not damaged") {
  CHECK_THROWS_AS(read({}), IncompatibleDataError);
  std::vector<std::byte> bytes(4096, std::byte{0xAB});
  CHECK_THROWS_AS(read(bytes), IncompatibleDataError);
  SnapshotHeader header = header_of(0);
  header.version = 2;
  bytes = SnapshotWriter(header, 0).finish();
  CHECK_THROWS_AS(read(bytes), IncompatibleDataError);
  header = header_of(0);
  header.byte_order = 0x0403'0201;
  bytes = SnapshotWriter(header, 0).finish();
  CHECK_THROWS_AS(read(bytes), IncompatibleDataError);
}

TEST_CASE("a length that no snapshot can have is refused, whatever its checksum") {
  // A header that is right but for the length of its section, with a fresh checksum.
  for (const std::uint64_t length :
       {std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 62}) {
    SnapshotWriter writer(header_of(1), 0);
    writer.add(Section::kIds, 8);
    std::vector<std::byte> bytes = std::move(writer).finish();
    std::memcpy(bytes.data() + sizeof(SnapshotHeader) + 8, &length, sizeof(length));
    SnapshotHeader header = {};
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.crc = 0;
    std::memcpy(bytes.data(), &header, sizeof(header));
    header.crc = kernels::active().crc32c(
        0, reinterpret_cast<const std::uint8_t*>(bytes.data()), kSnapshotFront);
    std::memcpy(bytes.data(), &header, sizeof(header));
    CHECK_THROWS_AS(read(bytes), CorruptDataError);
  }
}

}  // namespace vecall::testing

// Index::map: the answers of a loaded index, read only, from bytes that nobody
// verified.

#include <doctest.h>

#if !defined(_WIN32)
#include <sys/stat.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine_support.hpp"
#include "folder.hpp"
#include "kernels/dispatch.hpp"
#include "snapshot/snapshot_file.hpp"
#include "snapshot/snapshot_format.hpp"
#include "vecall/engine.hpp"
#include "vecall/errors.hpp"
#include "vecall/index.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr std::size_t kRows = 300;

std::vector<float> vectors_of(std::size_t rows, std::size_t first = 0) {
  std::vector<float> vectors;
  for (std::size_t i = 0; i < rows; ++i) {
    const Vector one = unit_vector(first + i, kDim);
    vectors.insert(vectors.end(), one.begin(), one.end());
  }
  return vectors;
}

std::vector<RowId> ids_to(std::size_t rows) {
  std::vector<RowId> ids(rows);
  std::iota(ids.begin(), ids.end(), RowId{0});
  return ids;
}

Options options_of(IndexKind kind, Codec codec = Codec::kInt4Plus8,
                   bool keep_float32 = false) {
  Options options;
  options.graph.kind = kind;
  options.codec = codec;
  options.keep_float32 = keep_float32;
  return options;
}

// Rows with two copies of one vector and holes, all of them linked if there is a graph.
Index filled(const Options& options, std::size_t rows = kRows) {
  Index index(kDim, options);
  std::vector<float> vectors = vectors_of(rows);
  if (rows > 7) std::copy_n(vectors.begin(), kDim, vectors.begin() + 7 * kDim);
  index.add(ids_to(rows), vectors);
  index.build();
  index.remove(std::vector<RowId>{3, 4, 64});
  return index;
}

bool same(const std::vector<Hit>& a, const std::vector<Hit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Hit one, Hit two) {
    return one.id == two.id && std::bit_cast<std::uint32_t>(one.score) ==
                                   std::bit_cast<std::uint32_t>(two.score);
  });
}

void check_same_answers(const Index& mapped, const Index& loaded) {
  CHECK(mapped.size() == loaded.size());
  CHECK(mapped.dim() == loaded.dim());
  CHECK(mapped.kind() == loaded.kind());
  CHECK(mapped.linked() == loaded.linked());
  CHECK(mapped.ids() == loaded.ids());
  const std::vector<RowId> only = {-1, 2, 3, 7, 41, 250, 1'000};
  std::vector<std::uint8_t> mask(loaded.size(), 0);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = 1;
  std::vector<SearchOptions> all = {{.k = 9},
                                    {.k = 9, .ef = 1},
                                    {.k = 2 * kRows, .ef = 2 * kRows},
                                    {.k = 9, .exact = true}};
  for (std::size_t i = 0; i < 4; ++i) {
    all.push_back(all[i]);
    all.back().only = only;
    all.push_back(all[i]);
    all.back().mask = mask;
  }
  constexpr std::size_t kQueries = 5;
  std::vector<float> queries = vectors_of(kQueries, 1'000);
  std::copy_n(vectors_of(1).begin(), kDim, queries.begin());  // that of a row
  std::fill_n(queries.begin() + 2 * kDim, kDim, 0.0F);        // finds nothing
  for (const SearchOptions& options : all) {
    CAPTURE(options.k);
    CAPTURE(options.ef);
    CAPTURE(options.exact);
    CAPTURE(options.only.has_value());
    CAPTURE(options.mask.has_value());
    std::vector<RowId> ids(kQueries * options.k);
    std::vector<float> scores(ids.size());
    mapped.search_batch(queries, options, 2, ids, scores);
    for (std::size_t row = 0; row < kQueries; ++row) {
      const std::span query(queries.data() + row * kDim, kDim);
      const auto wanted = loaded.search(query, options);
      CHECK(wanted.empty() == (row == 2 || loaded.size() == 0));
      CHECK(same(mapped.search(query, options), wanted));
      std::vector<Hit> of_batch;
      for (std::size_t at = row * options.k; at < (row + 1) * options.k; ++at) {
        if (ids[at] >= 0) of_batch.push_back({ids[at], scores[at]});
      }
      CHECK(same(of_batch, wanted));
    }
  }
  for (const RowId id : {0, 3, 7, 299, 300}) {
    CHECK(mapped.contains(id) == loaded.contains(id));
  }
}

// A new file, without the syncs of write_snapshot_file().
void put(const std::string& path, std::span<const std::byte> bytes) {
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  REQUIRE(file.good());
}

struct Place {
  std::size_t entry;  // of the table
  std::size_t begin;
  std::size_t bytes;
};

std::optional<Place> place_of(std::span<const std::byte> snapshot, Section kind) {
  SnapshotHeader header;
  std::memcpy(&header, snapshot.data(), sizeof(header));
  std::size_t at = kSnapshotFront;
  for (std::size_t i = 0; i < header.sections; ++i) {
    const std::size_t entry_at = sizeof(header) + i * sizeof(SectionEntry);
    SectionEntry entry;
    std::memcpy(&entry, snapshot.data() + entry_at, sizeof(entry));
    if (entry.kind == kind) return Place{entry_at, at, entry.bytes};
    at += padded_section(entry.bytes);
  }
  return std::nullopt;
}

std::uint32_t sum_of(std::span<const std::byte> bytes) {
  return kernels::active().crc32c(
      0, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Makes the checksum of header and table right again.
void sign_front(std::vector<std::byte>& snapshot) {
  SnapshotHeader header;
  std::memcpy(&header, snapshot.data(), sizeof(header));
  header.crc = 0;
  std::memcpy(snapshot.data(), &header, sizeof(header));
  header.crc = sum_of(std::span(snapshot).first(kSnapshotFront));
  std::memcpy(snapshot.data(), &header, sizeof(header));
}

// Writes over the begin of a section and makes its checksum right again.
void forge(std::vector<std::byte>& snapshot, Section kind, std::size_t at,
           std::span<const std::byte> bytes) {
  const Place place = place_of(snapshot, kind).value();
  REQUIRE(at + bytes.size() <= place.bytes);
  std::copy(bytes.begin(), bytes.end(),
            snapshot.begin() + static_cast<std::ptrdiff_t>(place.begin + at));
  SectionEntry entry;
  std::memcpy(&entry, snapshot.data() + place.entry, sizeof(entry));
  entry.crc = sum_of(std::span(snapshot).subspan(place.begin, place.bytes));
  std::memcpy(snapshot.data() + place.entry, &entry, sizeof(entry));
  sign_front(snapshot);
}

// Maps the bytes as a file and asks everything; what cannot be answered is a typed
// error.
enum class Fate { kRefused, kFoundOut, kRead };

Fate fate_of(const Folder& folder, std::span<const std::byte> bytes) {
  const std::string path = folder.of("damaged");
  put(path, bytes);
  std::optional<Index> mapped;
  try {
    mapped = Index::map(path);
  } catch (const CorruptDataError&) {
    return Fate::kRefused;
  } catch (const IncompatibleDataError&) {
    return Fate::kRefused;
  }
  const Vector query = unit_vector(1'000, mapped->dim());
  for (const bool exact : {false, true}) {
    CHECK(mapped->search(query, {.k = 9, .exact = exact}).size() <= 9);
  }
  CHECK(mapped->ids().size() == mapped->size());
  try {
    const std::vector<RowId> only = {1, 5};
    const auto hits = mapped->search(query, {.k = 9, .only = only});
    CHECK(hits.size() <= 2);
    (void)mapped->to_bytes();
  } catch (const CorruptDataError&) {
    return Fate::kFoundOut;
  }
  return Fate::kRead;
}

}  // namespace

TEST_CASE("a mapped index answers as a loaded one, bit for bit") {
  const Folder folder;
  const std::string path = folder.of("index");
  for (const IndexKind kind : {IndexKind::kFlat, IndexKind::kHnsw, IndexKind::kAuto}) {
    for (const Codec codec :
         {Codec::kInt4, Codec::kInt4Plus8, Codec::kInt4Plus8Plus4}) {
      for (const bool keep_float32 : {false, true}) {
        for (const bool for_mapping : {false, true}) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(static_cast<int>(codec));
          CAPTURE(keep_float32);
          CAPTURE(for_mapping);
          put(path,
              filled(options_of(kind, codec, keep_float32)).to_bytes(for_mapping));
          const Index mapped = Index::map(path);
          const Index loaded = Index::load(path);
          CHECK(mapped.is_mapped());
          CHECK_FALSE(loaded.is_mapped());
          CHECK(mapped.linked() == (kind == IndexKind::kHnsw ? kRows - 3 : 0));
          check_same_answers(mapped, loaded);
        }
      }
    }
  }
}

TEST_CASE("a mapped index of no row finds nothing") {
  const Folder folder;
  Index(kDim).save(folder.of("index"));
  check_same_answers(Index::map(folder.of("index")), Index::load(folder.of("index")));
}

TEST_CASE("a mapped index refuses changes, and keeps its file and its answers") {
  const Folder folder;
  const std::string path = folder.of("index");
  filled(options_of(IndexKind::kHnsw)).save(path);
  const auto before = read_snapshot_file(path);
  Index mapped = Index::map(path);
  CHECK_THROWS_AS(mapped.add(std::vector<RowId>{9}, vectors_of(1)), ReadOnlyError);
  CHECK_THROWS_AS(mapped.add({}, {}), ReadOnlyError);
  CHECK_THROWS_AS(mapped.remove(std::vector<RowId>{9}), ReadOnlyError);
  CHECK_THROWS_AS(mapped.remove({}), ReadOnlyError);
  CHECK_THROWS_AS(mapped.build(), ReadOnlyError);
  CHECK_THROWS_AS(mapped.add(std::vector<RowId>{9}, {}), InvalidArgumentError);
  check_same_answers(mapped, Index::load(path));
  CHECK(read_snapshot_file(path) == before);
}

TEST_CASE(
    "a copy of a mapped index by its bytes takes changes, and the file does not") {
  const Folder folder;
  const std::string path = folder.of("index");
  const Index index = filled(options_of(IndexKind::kHnsw));
  for (const bool for_mapping : {false, true}) {
    index.save(path, for_mapping);
    const Index mapped = Index::map(path);
    CHECK(mapped.to_bytes() == index.to_bytes());
    CHECK(mapped.to_bytes(true) == index.to_bytes(true));
    Index copy = Index::from_bytes(mapped.to_bytes());
    copy.add(std::vector<RowId>{3}, vectors_of(1, 3));
    CHECK(copy.remove(std::vector<RowId>{5}) == 1);
    CHECK(copy.contains(3));
    CHECK_FALSE(mapped.contains(3));
    CHECK(mapped.contains(5));
  }
}

TEST_CASE("each of several mappings of a file lives on when another ends or moves") {
  const Folder folder;
  const std::string path = folder.of("index");
  filled(options_of(IndexKind::kHnsw)).save(path, true);
  const Index loaded = Index::load(path);
  std::optional<Index> first = Index::map(path);
  const Index second = Index::map(path);
  Index third = Index::map(path);
  CHECK(first->contains(5));
  first.reset();
  check_same_answers(second, loaded);
  const Index moved = std::move(third);
  CHECK(moved.is_mapped());
  check_same_answers(moved, loaded);
}

TEST_CASE("threads may be the first to search a mapped index") {
  const Folder folder;
  const std::string path = folder.of("index");
  const std::size_t rows = 4'200;  // signs are made of whole chunks
  filled(options_of(IndexKind::kFlat), rows).save(path);
  const Index loaded = Index::load(path);
  const Index mapped = Index::map(path);
  const std::vector<RowId> only = {1, 5, 4'100};
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < right.size(); ++n) {
    threads.emplace_back([&, n] {
      const Vector query = unit_vector(4'100, kDim);
      const bool same_all = same(mapped.search(query), loaded.search(query));
      const bool same_some = same(mapped.search(query, {.k = 9, .only = only}),
                                  loaded.search(query, {.k = 9, .only = only}));
      right[n] = same_all && same_some && mapped.contains(5) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 1));
}

#if !defined(_WIN32)  // which keeps the name of a file that is mapped
TEST_CASE("a file that is replaced or removed stays what it was for who mapped it") {
  const Folder folder;
  const std::string path = folder.of("index");
  const Index old_index = filled(options_of(IndexKind::kHnsw));
  const Index new_index = filled(options_of(IndexKind::kFlat), 9);
  old_index.save(path);
  const Index old_mapped = Index::map(path);
  new_index.save(path);
  const Index new_mapped = Index::map(path);
  old_mapped.save(path);  // over the file that another index maps
  std::filesystem::remove(path);
  CHECK_THROWS_AS(Index::map(path), MissingFileError);
  check_same_answers(old_mapped, Index::from_bytes(old_index.to_bytes()));
  CHECK(new_mapped.ids() == new_index.ids());
  const Vector query = unit_vector(5, kDim);
  CHECK(same(new_mapped.search(query), new_index.search(query)));
  CHECK(old_mapped.to_bytes() == old_index.to_bytes());
}
#endif

TEST_CASE("what is no file of an index cannot be mapped") {
  const Folder folder;
  CHECK_THROWS_AS(Index::map(folder.of("none")), MissingFileError);
  CHECK_THROWS_AS(Index::map(folder.of(".")), FileError);
#if !defined(_WIN32)
  REQUIRE(mkfifo(folder.of("fifo").c_str(), 0600) == 0);
  CHECK_THROWS_AS(Index::map(folder.of("fifo")), FileError);
#endif
  const std::string path = folder.of("other");
  put(path, {});
  CHECK_THROWS_AS(Index::map(path), IncompatibleDataError);
  put(path, std::vector<std::byte>(5'000, std::byte{'S'}));
  CHECK_THROWS_AS(Index::map(path), IncompatibleDataError);
  const PartitionKey key = {"app", "user"};
  Engine words(kDim, {});
  words.add(key, Rows(kDim).vector(1, 1).meta({}, {7}));
  put(path, words.snapshot(key, {}));
  CHECK(Index::load(path).size() == 1);
  CHECK_THROWS_AS(Index::map(path), IncompatibleDataError);
  Engine no_vectors(0, {});
  RowBatch row;
  row.ids = {1};
  no_vectors.add(key, row);
  put(path, no_vectors.snapshot(key, {}));
  CHECK_THROWS_AS(Index::map(path), CorruptDataError);
}

TEST_CASE("a file of another version or byte order is refused as incompatible") {
  const Folder folder;
  const std::string path = folder.of("index");
  const auto whole = filled(options_of(IndexKind::kHnsw)).to_bytes();
  const auto changed = [&](auto change) {
    std::vector<std::byte> bytes = whole;
    SnapshotHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    change(header);
    std::memcpy(bytes.data(), &header, sizeof(header));
    sign_front(bytes);
    put(path, bytes);
    return Index::map(path);
  };
  CHECK(changed([](SnapshotHeader&) {}).size() == kRows - 3);
  CHECK_THROWS_AS(changed([](SnapshotHeader& header) { ++header.version; }),
                  IncompatibleDataError);
  CHECK_THROWS_AS(
      changed([](SnapshotHeader& header) { header.byte_order = 0x04030201; }),
      IncompatibleDataError);
  CHECK_THROWS_AS(changed([](SnapshotHeader& header) { ++header.magic[7]; }),
                  IncompatibleDataError);
  CHECK_THROWS_AS(changed([](SnapshotHeader& header) { header.codec = 3; }),
                  CorruptDataError);
  CHECK_THROWS_AS(changed([](SnapshotHeader& header) { ++header.slots; }),
                  CorruptDataError);
  CHECK_THROWS_AS(changed([](SnapshotHeader& header) { header.m = 1; }),
                  CorruptDataError);
}

TEST_CASE("a file that was cut off, or has more bytes, is refused") {
  const Folder folder;
  for (const bool for_mapping : {false, true}) {
    const auto whole = filled(options_of(IndexKind::kHnsw, Codec::kInt4, true), 20)
                           .to_bytes(for_mapping);
    CHECK(fate_of(folder, whole) == Fate::kRead);
    for (std::size_t length = 0; length < whole.size(); length += 61) {
      CAPTURE(length);
      CHECK(fate_of(folder, std::span(whole).first(length)) == Fate::kRefused);
    }
    CHECK(fate_of(folder, std::span(whole).first(whole.size() - 1)) == Fate::kRefused);
    for (const std::size_t more : {1, 64}) {
      std::vector<std::byte> longer = whole;
      longer.resize(whole.size() + more);
      CHECK(fate_of(folder, longer) == Fate::kRefused);
    }
  }
}

TEST_CASE("a flipped bit is found when the file is mapped, or before it is saved") {
  const Folder folder;
  for (const bool for_mapping : {false, true}) {
    const auto whole = filled(options_of(IndexKind::kHnsw, Codec::kInt4, true), 20)
                           .to_bytes(for_mapping);
    std::size_t refused = 0;
    std::size_t found_out = 0;
    for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 251) {
      std::vector<std::byte> damaged = whole;
      damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      const Fate fate = fate_of(folder, damaged);
      CAPTURE(bit);
      CHECK(fate != Fate::kRead);
      refused += fate == Fate::kRefused ? 1 : 0;
      found_out += fate == Fate::kFoundOut ? 1 : 0;
    }
    CHECK(refused > 0);
    CHECK(found_out > 0);
  }
}

TEST_CASE("each section is verified before it is trusted") {
  const Folder folder;
  const auto whole =
      filled(options_of(IndexKind::kHnsw, Codec::kInt4Plus8Plus4, true)).to_bytes(true);
  const auto damaged = [&](Section kind) {
    std::vector<std::byte> bytes = whole;
    // A value as good as the old one: of flags, whether the row is pending.
    bytes[place_of(bytes, kind).value().begin] ^= std::byte{4};
    return fate_of(folder, bytes);
  };
  for (const Section kind : {Section::kFlags, Section::kFactors, Section::kSteps,
                             Section::kUpperLinks, Section::kCopies}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(damaged(kind) == Fate::kRefused);
  }
  for (const Section kind : {Section::kHigh, Section::kLow, Section::kRest,
                             Section::kFloats, Section::kIds, Section::kLinks}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(damaged(kind) == Fate::kFoundOut);
  }
}

TEST_CASE("forged sections with right checksums are answered or refused") {
  const Folder folder;
  const auto whole =
      filled(options_of(IndexKind::kHnsw, Codec::kInt4, true)).to_bytes(true);
  std::mt19937 random(5);
  for (std::uint32_t number = 1; number < kMostSections; ++number) {
    const auto kind = static_cast<Section>(number);
    const auto place = place_of(whole, kind);
    if (!place) continue;
    for (int turn = 0; turn < 40; ++turn) {
      std::vector<std::byte> bytes = whole;
      const auto value =
          turn % 2 == 0 ? static_cast<std::uint32_t>(random()) : 0x7FFF'FFFF;
      const std::size_t at = random() % (place->bytes / 4) * 4;
      forge(bytes, kind, at, std::as_bytes(std::span(&value, 1)));
      (void)fate_of(folder, bytes);  // neither a crash nor an untyped error
    }
  }
}

TEST_CASE("numbers that no vector of norm 1 has are refused before they overflow") {
  const Folder folder;
  const std::string path = folder.of("index");
  const auto whole =
      filled(options_of(IndexKind::kFlat, Codec::kInt4Plus8, true)).to_bytes();
  for (const Section kind : {Section::kFactors, Section::kSteps, Section::kFloats}) {
    for (const float value : {-3e38F, 3e38F, std::nanf("")}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(value);
      auto bytes = whole;
      forge(bytes, kind, 0, std::as_bytes(std::span(&value, 1)));
      put(path, bytes);
      CHECK_THROWS_AS(Index::load(path), CorruptDataError);
      if (kind == Section::kFloats) continue;  // of a mapped file they are not read
      CHECK_THROWS_AS(Index::map(path), CorruptDataError);
    }
  }
}

TEST_CASE("two rows of one id are found out by the first look for an id") {
  const Folder folder;
  const std::string path = folder.of("index");
  auto bytes = filled(options_of(IndexKind::kFlat)).to_bytes();
  const RowId twin = 21;
  forge(bytes, Section::kIds, 20 * sizeof(RowId), std::as_bytes(std::span(&twin, 1)));
  put(path, bytes);
  CHECK_THROWS_AS(Index::load(path), CorruptDataError);
  const Index mapped = Index::map(path);
  CHECK(mapped.search(unit_vector(5, kDim), {.k = 1}).at(0).id == 5);
  const std::vector<RowId> only = {5};
  for (int turn = 0; turn < 2; ++turn) {
    CHECK_THROWS_AS((void)mapped.contains(5), CorruptDataError);
    CHECK_THROWS_AS((void)mapped.search(unit_vector(5, kDim), {.k = 1, .only = only}),
                    CorruptDataError);
  }
}

}  // namespace vecall::testing

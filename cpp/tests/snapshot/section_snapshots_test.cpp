// RowTableSnapshot, PostingsSnapshot and GraphSnapshot: what each saves comes back, and
// what contradicts itself is refused.

#include <doctest.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "engine_support.hpp"
#include "kernels/dispatch.hpp"
#include "partition/partition_snapshot.hpp"
#include "rows/row_table_snapshot.hpp"
#include "terms/postings_snapshot.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

constexpr std::size_t kDim = 40;
constexpr std::size_t kRows = 120;

GraphOptions small_graph() {
  GraphOptions graph;
  graph.kind = IndexKind::kHnsw;
  graph.m = 2;
  graph.ef_construction = 10;
  return graph;
}

// Rows with words, times, expiries and sessions, some removed, all linked.
std::vector<std::byte> saved() {
  Partition partition(make_space(kDim, small_graph()));
  Rows rows(kDim);
  for (std::size_t i = 0; i < kRows; ++i) {
    RowMeta meta;
    meta.time = static_cast<Micros>(1'000 - i);
    if (i % 4 == 0) meta.expires = static_cast<Micros>(5'000 + i);
    meta.session = 1 + i % 3;
    meta.position = static_cast<double>(i);
    rows.vector(static_cast<RowId>(i), i);
    rows.meta(meta, {1 + i % 5, 1 + i % 5, 50 + i % 2, (7 + i) | kPartTerm});
  }
  partition.add(rows.batch());
  while (partition.link_some()) {
  }
  partition.remove(std::vector<RowId>{3, 50, 119});
  return PartitionSnapshot::save(partition, {});
}

SnapshotHeader header_of(const std::vector<std::byte>& bytes) {
  SnapshotHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// Changes a section and makes the checksums right again.
void change(std::vector<std::byte>& bytes, Section kind,
            const std::function<void(std::byte*)>& how) {
  SnapshotHeader header = header_of(bytes);
  SectionEntry table[kMostSections];
  std::memcpy(table, bytes.data() + sizeof(header), sizeof(table));
  const auto crc32c = kernels::active().crc32c;
  const auto* const raw = reinterpret_cast<const std::uint8_t*>(bytes.data());
  bool found = false;
  std::size_t at = kSnapshotFront;
  for (std::size_t i = 0; i < header.sections; ++i) {
    if (table[i].kind == kind) {
      found = true;
      how(bytes.data() + at);
      table[i].crc = crc32c(0, raw + at, table[i].bytes);
    }
    at += padded_section(table[i].bytes);
  }
  REQUIRE(found);
  header.crc = 0;
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), table, sizeof(table));
  header.crc = crc32c(0, raw, kSnapshotFront);
  std::memcpy(bytes.data(), &header, sizeof(header));
}

template <class T>
std::function<void(std::byte*)> put(std::size_t index, T value) {
  return [=](std::byte* section) {
    std::memcpy(section + index * sizeof(T), &value, sizeof(T));
  };
}

bool is_refused(const std::vector<std::byte>& bytes) {
  const SnapshotReader reader(bytes);
  try {
    (void)PartitionSnapshot::restore(reader, make_space(kDim, small_graph()));
    return false;
  } catch (const CorruptDataError&) {
    return true;
  }
}

}  // namespace

TEST_CASE("RowTableSnapshot gives back the columns of the live rows") {
  const auto bytes = saved();
  const SnapshotReader reader(bytes);
  const auto space = make_space(kDim, small_graph());
  RowTable rows(space->rows);
  RowTableSnapshot::restore(reader, rows);
  CHECK(rows.slots() == kRows);
  CHECK(rows.live() == kRows - 3);
  CHECK(rows.vectors() == kRows - 3);
  for (Slot slot = 0; slot < kRows; ++slot) {
    const bool gone = slot == 3 || slot == 50 || slot == 119;
    REQUIRE(rows.is_live(slot) == !gone);
    if (gone) continue;
    REQUIRE(rows.id(slot) == static_cast<RowId>(slot));
    REQUIRE(rows.time(slot) == static_cast<Micros>(1'000 - slot));
    REQUIRE(rows.position(slot) == static_cast<double>(slot));
    REQUIRE(rows.expires(slot) ==
            (slot % 4 == 0 ? static_cast<Micros>(5'000 + slot) : kMaxTime));
  }
  rows.reserve(1, true, false);
  CHECK(rows.allocate(900) == 3);  // the smallest free slot
}

TEST_CASE("RowTableSnapshot refuses rows that cannot be right") {
  const float no_number = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [section, how] :
       std::vector<std::pair<Section, std::function<void(std::byte*)>>>{
           {Section::kFactors, put<float>(7, no_number)},
           {Section::kSteps, put<float>(7, no_number)},
           {Section::kFlags, put<std::uint8_t>(7, kFlagVector)},
           {Section::kFlags, put<std::uint8_t>(7, 0x40)},
           {Section::kIds, put<RowId>(7, 8)}}) {
    auto bytes = saved();
    CHECK_FALSE(is_refused(bytes));
    change(bytes, section, how);
    CHECK(is_refused(bytes));
  }
}

TEST_CASE("PostingsSnapshot gives back scores to the bit, however the rows change") {
  constexpr Slot kSlots = 600;
  std::mt19937_64 random(7);
  std::vector<bool> live(kSlots, false);
  const auto words_of = [&random] {  // a few of many holders, and rare ones
    std::vector<TermHash> words(random() % 12);
    for (TermHash& word : words) word = 1 + random() % (1 + random() % 90);
    if (!words.empty()) words.back() |= kPartTerm;
    return words;
  };
  Postings postings;
  for (Slot slot = 0; slot < kSlots; slot += 1 + slot / 500) {
    postings.add(slot, words_of());
    live[slot] = true;
  }
  SnapshotHeader header = header_of(saved());
  header.slots = kSlots;
  SnapshotWriter writer(header, 0);
  PostingsSnapshot::save(postings, writer);
  const auto bytes = std::move(writer).finish();
  Postings restored;
  PostingsSnapshot::restore(
      SnapshotReader(bytes), [&live](Slot slot) { return live[slot]; }, restored);
  const std::size_t nbytes = restored.nbytes();
  const std::vector<TermHash> query = {1, 9, 6 | kPartTerm, 1, 77, 777};
  for (int step = 0; step < 5'000; ++step) {
    if (step % 100 == 0) {
      TermScores wanted;
      TermScores found;
      postings.score(query, wanted);
      restored.score(query, found);
      REQUIRE(restored.terms() == postings.terms());
      REQUIRE(found.query_idf == wanted.query_idf);
      REQUIRE(found.touched == wanted.touched);
      for (const Slot slot : found.touched) {
        REQUIRE(found.of_slot[slot].bm25 == wanted.of_slot[slot].bm25);
        REQUIRE(found.of_slot[slot].matched == wanted.of_slot[slot].matched);
      }
    }
    const auto slot = static_cast<Slot>(random() % kSlots);
    const auto words =
        live[slot] || step > 4'000 ? std::vector<TermHash>() : words_of();
    for (Postings* each : {&postings, &restored}) {
      each->remove(slot);
      each->add(slot, words);
    }
    live[slot] = !words.empty();
  }
  for (Slot slot = 0; slot < kSlots; ++slot) restored.remove(slot);
  CHECK(restored.terms() == 0);
  CHECK(restored.nbytes() < 2 * nbytes);  // what grew beside the slab is given back
}

TEST_CASE("PostingsSnapshot refuses words out of order and rows that are not there") {
  for (const auto& [section, how] :
       std::vector<std::pair<Section, std::function<void(std::byte*)>>>{
           {Section::kTerms, put<TermHash>(1, 0)},
           {Section::kHolders, put<std::uint32_t>(0, 0)},
           {Section::kHolders, put<std::uint32_t>(0, 1'000'000)},
           {Section::kPostings, put<Slot>(0, 3)},      // removed
           {Section::kPostings, put<Slot>(0, 4'000)},  // beyond the rows
           {Section::kPostings, put<Slot>(1, 0)}}) {   // no times
    auto bytes = saved();
    change(bytes, section, how);
    CHECK(is_refused(bytes));
  }
}

TEST_CASE("GraphSnapshot gives back a whole graph, and the tail stays to be linked") {
  const auto bytes = saved();
  REQUIRE(header_of(bytes).has_graph == 1);
  const SnapshotReader reader(bytes);
  const auto restored =
      PartitionSnapshot::restore(reader, make_space(kDim, small_graph()));
  CHECK(restored->linked() == kRows - 3);
  CHECK_FALSE(restored->has_links_to_make());
  CHECK(PartitionSnapshot::save(*restored, {}) == bytes);
  Rows more(kDim);
  more.vector(500, 500);
  CHECK(restored->add(more.batch()));
  CHECK(restored->linked() == kRows - 3);
}

TEST_CASE("GraphSnapshot refuses links that lead to nowhere") {
  for (const Slot bad : {Slot{0}, Slot{4'000}, Slot{kRows}}) {  // itself, and beyond
    auto bytes = saved();
    change(bytes, Section::kLinks, put<Slot>(0, bad));
    CHECK(is_refused(bytes));
  }
  auto bytes = saved();
  change(bytes, Section::kFlags, put<std::uint8_t>(9, kFlagLive | kFlagVector));
  CHECK(is_refused(bytes));  // others link to a row that is said not to stand in it
}

}  // namespace vecall::testing

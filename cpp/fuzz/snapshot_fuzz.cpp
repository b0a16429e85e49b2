// Hostile snapshots for libFuzzer. Bytes are changed by chance, and then the checksums
// and the table are made right again, so that what the sections say is reached. What
// loads must answer, take changes and be saved, and load again. What is mapped must
// answer or give its error; where it loads too, its scans answer alike.
//
// VECALL_FUZZ_BYTES=N ends the program after N bytes of input.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/dispatch.hpp"
#include "snapshot/snapshot_format.hpp"
#include "snapshot/snapshot_reader.hpp"
#include "vecall/engine.hpp"
#include "vecall/errors.hpp"
#include "vecall/index.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_size);

namespace vecall {

namespace {

constexpr PartitionKey kKey = {"app", "user"};

std::size_t mapped_snapshots = 0;

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(count);
  for (float& value : all) value = normal(random);
  return all;
}

std::vector<RowId> ids_to(std::size_t count) {
  std::vector<RowId> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<RowId>(i);
  return ids;
}

// What an Index saves: vectors alone, for a mapping or not.
std::vector<std::byte> seed_of_index(std::size_t dim, const Options& options,
                                     std::size_t rows, unsigned number) {
  Index index(dim, options);
  index.add(ids_to(rows), numbers(rows * dim, number));
  index.build();
  index.remove(std::vector<RowId>{2, 5, 6});
  return index.to_bytes(number % 2 == 0);
}

// Rows of every kind: words, times, sessions, names, expiries, gaps and a graph.
std::vector<std::byte> seed_of(unsigned number) {
  Options options;
  constexpr IndexKind kKinds[] = {IndexKind::kFlat, IndexKind::kHnsw, IndexKind::kAuto};
  constexpr Codec kCodecs[] = {Codec::kInt4, Codec::kInt4Plus8, Codec::kInt4Plus8Plus4};
  constexpr std::size_t kDims[] = {0, 3, 40, 64};
  options.graph.kind = kKinds[number % 3];
  options.graph.m = 2 + number % 3;
  options.graph.ef_construction = 8;
  options.graph.flat_bytes = 64;
  options.codec = kCodecs[number / 3 % 3];
  options.keep_float32 = number % 2 == 0;
  const std::size_t dim = kDims[number / 2 % 4];
  const std::size_t rows = number % 5 * 9;
  if (number % 7 > 3 && dim > 0) return seed_of_index(dim, options, rows, number);
  Engine engine(dim, options);
  RowBatch batch;
  batch.ids = ids_to(rows);
  const std::vector<float> vectors = numbers(rows * dim, number);
  if (dim > 0) {
    batch.vectors = vectors;
    batch.has_vector.assign(rows, 1);
    for (std::size_t i = 3; i < rows; i += 8) batch.has_vector[i] = 0;
  }
  if (number % 4 != 1) {
    batch.offsets.push_back(0);
    for (std::size_t i = 0; i < rows; ++i) {
      RowMeta meta;
      meta.time = static_cast<Micros>(i);
      if (i % 4 == 0) meta.expires = 1'000 + static_cast<Micros>(i);
      meta.session = i % 3;
      meta.position = static_cast<double>(i);
      meta.author = i % 2;
      meta.kind = i % 5;
      batch.meta.push_back(meta);
      for (std::size_t word = 0; word < i % 4; ++word) batch.terms.push_back(1 + word);
      batch.offsets.push_back(static_cast<std::int64_t>(batch.terms.size()));
    }
  }
  engine.add(kKey, batch);
  engine.build(kKey);
  engine.remove(kKey, std::vector<RowId>{2, 5, 6});
  return engine.snapshot(kKey, {});
}

// Makes header, table and checksums such that only the sections' contents can be wrong.
void mend(std::uint8_t* data, std::size_t size) {
  if (size < kSnapshotFront) return;
  SnapshotHeader header;
  SectionEntry table[kMostSections];
  std::memcpy(&header, data, sizeof(header));
  std::memcpy(table, data + sizeof(header), sizeof(table));
  std::memcpy(header.magic, SnapshotHeader::kMagic, sizeof(header.magic));
  header.version = SnapshotHeader::kVersion;
  header.byte_order = SnapshotHeader::kByteOrder;
  header.sections = static_cast<std::uint32_t>(header.sections % (kMostSections + 1));
  const auto crc32c = kernels::active().crc32c;
  std::size_t at = kSnapshotFront;
  for (std::size_t i = 0; i < header.sections && at < size; ++i) {
    const std::size_t bytes =
        std::min<std::size_t>(table[i].bytes, size - std::min(size, at));
    table[i].bytes = bytes;
    table[i].crc = crc32c(0, data + at, bytes);
    at += padded_section(bytes);
  }
  header.crc = 0;
  std::memcpy(data, &header, sizeof(header));
  std::memcpy(data + sizeof(header), table, sizeof(table));
  header.crc = crc32c(0, data, kSnapshotFront);
  std::memcpy(data, &header, sizeof(header));
}

void use(Engine& engine, std::size_t dim) {
  std::vector<float> unit(dim, 0.0F);
  if (dim > 0) unit[dim / 2] = 1.0F;
  const std::vector<TermHash> terms = {1, 2, 3 | kPartTerm};
  if (dim > 0) {
    std::vector<Hit> hits;
    for (const bool exact : {false, true}) {
      SearchQuery query;
      query.unit_vector = unit;
      query.k = 7;
      query.exact = exact;
      engine.search(kKey, query, hits);
    }
  }
  RecallQuery query;
  query.unit_vector = unit;
  query.terms = terms;
  query.filter.now = 1'001;
  std::vector<RecallHit> recalled;
  engine.recall(kKey, query, recalled);
  query.filter.session = 1;
  query.filter.author = 1;
  engine.recall(kKey, query, recalled);
}

// A file without a name, so that none is left.
class File {
 public:
  File() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw std::runtime_error("no temporary file");
  }
  ~File() { std::fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] std::string path() const {
    return "/dev/fd/" + std::to_string(::fileno(file_));
  }
  void write(std::span<const std::byte> bytes) const {
    if (::ftruncate(::fileno(file_), 0) != 0 ||
        ::pwrite(::fileno(file_), bytes.data(), bytes.size(), 0) !=
            static_cast<::ssize_t>(bytes.size())) {
      throw std::runtime_error("the temporary file cannot be written");
    }
  }

 private:
  std::FILE* file_;
};

bool same(const std::vector<Hit>& a, const std::vector<Hit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](Hit one, Hit two) {
    return one.id == two.id && one.score == two.score;
  });
}

void map(std::span<const std::byte> bytes, const Index* loaded) {
  static const File file;
  file.write(bytes);
  std::optional<Index> mapped;
  try {
    mapped = Index::map(file.path());
  } catch (const IncompatibleDataError&) {  // more than vectors
    return;
  } catch (const CorruptDataError&) {
    // Loading makes the lists of copies anew and does not look at those of the file.
    if (loaded != nullptr && !SnapshotReader(bytes).has(Section::kCopies)) std::abort();
    return;
  }
  ++mapped_snapshots;
  const std::vector<float> query(mapped->dim(), 1.0F);
  (void)mapped->search(query, {.k = 7});
  const auto scanned = mapped->search(query, {.k = 7, .exact = true});
  if (loaded != nullptr &&
      !same(scanned, loaded->search(query, {.k = 7, .exact = true}))) {
    std::abort();
  }
  std::vector<RowId> ids(14);
  std::vector<float> scores(14);
  std::vector<float> two = query;
  two.insert(two.end(), query.begin(), query.end());
  mapped->search_batch(two, {.k = 7}, 1, ids, scores);
  if (mapped->ids().size() != mapped->size()) std::abort();
  try {
    const std::vector<RowId> only = {1, 3, 9};
    (void)mapped->search(query, {.k = 7, .only = only});
    (void)mapped->contains(1);
  } catch (const CorruptDataError&) {  // two rows have one id
    if (loaded != nullptr) std::abort();
  }
  try {
    (void)mapped->to_bytes(true);
  } catch (const CorruptDataError&) {  // what was not verified before
    if (loaded != nullptr) std::abort();
  }
}

void load(std::span<const std::byte> bytes) {
  SnapshotHeader header;
  if (bytes.size() < sizeof(header)) return;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.dim > 0) {
    std::optional<Index> index;
    try {
      index = Index::from_bytes(bytes);
      (void)index->to_bytes();
    } catch (const Error&) {  // refused, as it should be
    }
    map(bytes, index ? &*index : nullptr);
  }
  Options options;
  options.codec = static_cast<Codec>(header.codec % 3);
  options.keep_float32 = header.keep_float32 != 0;
  options.graph.kind = static_cast<IndexKind>(header.kind % 3);
  options.graph.m = std::clamp<std::uint32_t>(header.m, 2, 8);
  options.graph.ef_construction = 8;
  options.graph.flat_bytes = 64;
  options.seed = header.rotation_seed;
  const std::size_t dim = std::min<std::size_t>(header.dim, 512);
  Engine engine(dim, options);
  try {
    engine.restore(kKey, bytes);
  } catch (const Error&) {
    if (engine.contains(kKey)) std::abort();
    return;
  }
  use(engine, dim);
  RowBatch batch;
  batch.ids = ids_to(4);
  const std::vector<float> vectors = numbers(4 * dim, 1);
  if (dim > 0) {
    batch.vectors = vectors;
    batch.has_vector.assign(4, 1);
  }
  engine.add(kKey, batch);
  engine.remove(kKey, std::vector<RowId>{0, 9, 11});
  engine.build(kKey);
  use(engine, dim);
  Engine again(dim, options);
  again.restore(kKey, engine.snapshot(kKey, {}));  // what was taken is given back
  if (again.size(kKey) != engine.size(kKey)) std::abort();
}

}  // namespace

}  // namespace vecall

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  if (size < vecall::kSnapshotFront || seed % 16 == 0) {
    const auto made = vecall::seed_of(seed / 16 % 120);
    if (made.size() <= max_size) {
      if (!made.empty()) std::memcpy(data, made.data(), made.size());
      size = made.size();
    }
  }
  if (seed % 3 == 0 && size > vecall::kSnapshotFront) {
    // The sections alone, in place: lengths stay right.
    std::mt19937 random(seed);
    for (unsigned i = 1 + random() % 4; i > 0; --i) {
      const std::size_t at =
          vecall::kSnapshotFront + random() % (size - vecall::kSnapshotFront);
      const unsigned how = random() % 3;
      data[at] = how == 0 ? 0xFF
                 : how == 1
                     ? static_cast<std::uint8_t>(random())
                     : static_cast<std::uint8_t>(data[at] ^ (1U << random() % 8));
    }
  } else {
    size = LLVMFuzzerMutate(data, size, max_size);
  }
  if (seed % 32 != 1) vecall::mend(data, size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const char* const wanted = std::getenv("VECALL_FUZZ_BYTES");
  static const std::size_t most =
      wanted == nullptr ? 0 : std::strtoull(wanted, nullptr, 10);
  static std::size_t seen = 0;
  static std::size_t inputs = 0;
  vecall::load(std::as_bytes(std::span(data, size)));
  seen += size;
  ++inputs;
  if (most > 0 && seen >= most) {
    std::printf("%zu bytes in %zu snapshots, %zu of them mapped: no fault\n", seen,
                inputs, vecall::mapped_snapshots);
    std::fflush(stdout);
    _exit(0);
  }
  return 0;
}

#include "vecall/index.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "engine/aligned_bytes.hpp"
#include "engine/batch_search.hpp"
#include "engine/make_space.hpp"
#include "engine/shared_read.hpp"
#include "partition/background_linker.hpp"
#include "partition/encoded_batch.hpp"
#include "partition/partition_snapshot.hpp"
#include "snapshot/snapshot_file.hpp"
#include "sync/run_together.hpp"
#include "vecall/errors.hpp"
#include "vecall/normalise.hpp"

namespace vecall {

struct Index::State {
  std::unique_ptr<const MappedFile> file;  // outlives the partition that reads it
  std::atomic<bool> has_ids{true};
  Ref<const PartitionSpace> space;
  Ref<Partition> partition;

  explicit State(Ref<const PartitionSpace> shared)
      : space(std::move(shared)), partition(make_ref<Partition>(space)) {}
  State(Ref<const PartitionSpace> shared, Ref<Partition> restored)
      : space(std::move(shared)), partition(std::move(restored)) {}
};

namespace {

constexpr std::size_t kQueriesAtOnce = 64;  // that are normalised
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

void check_k(std::size_t k) {
  if (k == 0) throw InvalidArgumentError("k: must be at least 1");
}

}  // namespace

Index::Index(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Index::Index(std::size_t dim, const Options& options) {
  if (dim == 0) throw InvalidArgumentError("dim: must be at least 1");
  state_ = std::make_unique<State>(make_space(dim, options));
}

Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

Index Index::load(const std::string& path) {
  return from_bytes(read_snapshot_file(path));
}

Index Index::from_bytes(std::span<const std::byte> bytes) {
  const AlignedBytes aligned(bytes);
  const SnapshotReader reader(aligned.view());
  if (reader.header().dim == 0) refuse_snapshot("holds no vectors");
  auto space = PartitionSnapshot::space_of(reader);
  auto partition = PartitionSnapshot::restore(reader, space);
  auto state = std::make_unique<State>(std::move(space), std::move(partition));
  request_links(state->partition);
  return Index(std::move(state));
}

Index Index::map(const std::string& path) {
  auto file = std::make_unique<const MappedFile>(path);
  const SnapshotReader reader(file->bytes(), true);
  if (reader.header().dim == 0) refuse_snapshot("holds no vectors");
  auto space = PartitionSnapshot::space_of(reader);
  auto partition = PartitionSnapshot::restore(reader, space);
  auto state = std::make_unique<State>(std::move(space), std::move(partition));
  state->file = std::move(file);
  state->has_ids = false;
  return Index(std::move(state));
}

void Index::check_writable() const {
  if (is_mapped()) {
    throw ReadOnlyError(
        "the index is mapped and cannot be changed: load it without mmap");
  }
}

WaitHook Index::find_ids(WaitHook before_wait) const {
  if (state_->has_ids.load(std::memory_order_acquire)) return before_wait;
  before_wait();
  PartitionSnapshot::find_ids(*state_->partition);
  state_->has_ids.store(true, std::memory_order_release);
  return {};
}

void Index::add(std::span<const RowId> ids, std::span<const float> vectors) {
  if (vectors.size() != ids.size() * dim()) {
    throw InvalidArgumentError("vectors: every id needs one vector of the index's dim");
  }
  check_writable();
  RowBatch batch;
  batch.ids.assign(ids.begin(), ids.end());
  batch.has_vector.assign(ids.size(), 1);
  batch.vectors = vectors;
  add_rows(state_->partition, EncodedBatch(state_->space->rows, batch));
}

std::size_t Index::remove(std::span<const RowId> ids) {
  check_writable();
  return remove_rows(state_->partition, ids);
}

void Index::build(std::size_t threads, PauseHook pause) {
  check_writable();
  std::vector<GraphLinker> linkers(threads_for(threads));
  while (state_->partition->link_some(linkers)) pause();
}

void Index::search(std::span<const float> query, const SearchOptions& options,
                   std::vector<Hit>& hits, WaitHook before_wait) const {
  thread_local std::vector<float> unit;
  hits.clear();
  check_k(options.k);
  if (!normalise_query(query, dim(), unit)) return;
  SearchQuery one{unit, options.k, options.ef, options.exact, {}};
  one.filter.only = options.only;
  one.filter.mask = options.mask;
  if (options.only) before_wait = find_ids(before_wait);
  const Partition& partition = *state_->partition;
  SharedRead read(partition, before_wait);
  read.expect(partition.search_bytes(options.ef));
  partition.search(one, hits);
}

std::vector<Hit> Index::search(std::span<const float> query,
                               const SearchOptions& options) const {
  std::vector<Hit> hits;
  search(query, options, hits);
  return hits;
}

void Index::search_batch(std::span<const float> queries, const SearchOptions& options,
                         std::size_t threads, std::span<RowId> ids,
                         std::span<float> scores, PauseHook pause) const {
  check_k(options.k);
  const std::size_t count = queries.size() / dim();
  if (queries.size() != count * dim() || ids.size() != count * options.k ||
      scores.size() != ids.size()) {
    throw InvalidArgumentError(
        "queries, ids and scores: need dim, k and k values for each query");
  }
  if (options.only) (void)find_ids({});
  BatchQueries batch;
  batch.units.reserve(queries.size());
  batch.is_zero.resize(count);
  std::vector<float> unit;
  for (std::size_t row = 0; row < count; ++row) {
    const auto query = queries.subspan(row * dim(), dim());
    batch.is_zero[row] = normalise_query(query, dim(), unit) ? 0 : 1;
    batch.units.insert(batch.units.end(), unit.begin(), unit.end());
    std::fill_n(ids.data() + row * options.k, options.k, RowId{-1});
    std::fill_n(scores.data() + row * options.k, options.k, kNoScore);
    if (row % kQueriesAtOnce == 0) pause();
  }
  batch.k = options.k;
  batch.ef = options.ef;
  batch.exact = options.exact;
  batch.filter.only = options.only;
  batch.filter.mask = options.mask;
  batch_search(*state_->partition, batch, threads, pause, ids, scores);
}

void Index::save(const std::string& path, bool for_mapping) const {
  write_snapshot_file(path, to_bytes(for_mapping));
}

std::vector<std::byte> Index::to_bytes(bool for_mapping) const {
  // New checksums are for bytes that had right ones.
  if (is_mapped()) (void)SnapshotReader(state_->file->bytes());
  return PartitionSnapshot::save(*state_->partition, {}, for_mapping);
}

std::size_t Index::dim() const noexcept {
  return state_->partition->dim();
}

IndexKind Index::kind() const noexcept {
  return state_->space->graph.kind;
}

bool Index::is_mapped() const noexcept {
  return state_->file != nullptr;
}

std::size_t Index::size(WaitHook before_wait) const {
  const Partition& partition = *state_->partition;
  const SharedRead read(partition, before_wait);
  return partition.size();
}

bool Index::contains(RowId id, WaitHook before_wait) const {
  before_wait = find_ids(before_wait);
  const Partition& partition = *state_->partition;
  const SharedRead read(partition, before_wait);
  return partition.contains(id);
}

std::vector<RowId> Index::ids(WaitHook before_wait) const {
  const Partition& partition = *state_->partition;
  const SharedRead read(partition, before_wait);
  return partition.live_ids();
}

std::size_t Index::linked(WaitHook before_wait) const {
  const Partition& partition = *state_->partition;
  const SharedRead read(partition, before_wait);
  return partition.linked();
}

std::size_t Index::nbytes(WaitHook before_wait) const {
  const Partition& partition = *state_->partition;
  const SharedRead read(partition, before_wait);
  return partition.nbytes();
}

}  // namespace vecall

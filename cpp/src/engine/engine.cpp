#include "vecall/engine.hpp"

#include <cstring>

#include "engine/aligned_bytes.hpp"
#include "engine/make_space.hpp"
#include "engine/shared_read.hpp"
#include "partition/background_linker.hpp"
#include "partition/encoded_batch.hpp"
#include "partition/partition_map.hpp"
#include "partition/partition_snapshot.hpp"

namespace vecall {

struct Engine::State {
  Ref<const PartitionSpace> space;
  PartitionMap partitions;

  explicit State(Ref<const PartitionSpace> shared)
      : space(std::move(shared)), partitions(space) {}
};

Engine::Engine(std::size_t dim, const Options& options)
    : state_(std::make_unique<State>(make_space(dim, options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

void Engine::add(PartitionKey key, const RowBatch& batch) {
  const EncodedBatch encoded(state_->space->rows, batch);
  if (batch.ids.empty()) return;
  add_rows(state_->partitions.find_or_create(key), encoded);
}

std::size_t Engine::remove(PartitionKey key, std::span<const RowId> ids) {
  const auto partition = state_->partitions.find(key);
  return partition ? remove_rows(partition, ids) : 0;
}

bool Engine::drop(PartitionKey key) {
  return state_->partitions.erase(key);
}

void Engine::build(PartitionKey key, PauseHook pause) {
  const auto partition = state_->partitions.find(key);
  GraphLinker linker;
  while (partition && partition->link_some({&linker, 1})) pause();
}

void Engine::search(PartitionKey key, const SearchQuery& query, std::vector<Hit>& hits,
                    WaitHook before_wait) const {
  hits.clear();
  const auto partition = state_->partitions.find(key);
  if (!partition) return;
  SharedRead read(*partition, before_wait);
  read.expect(partition->search_bytes(query.ef));
  partition->search(query, hits);
}

RecallSummary Engine::recall(PartitionKey key, const RecallQuery& query,
                             std::vector<RecallHit>& hits, WaitHook before_wait) const {
  hits.clear();
  const auto partition = state_->partitions.find(key);
  if (!partition) return {};
  SharedRead read(*partition, before_wait);
  read.expect(partition->recall_bytes(query));
  return partition->recall(query, hits);
}

std::vector<std::byte> Engine::snapshot(PartitionKey key,
                                        std::span<const std::byte> tag) const {
  const auto partition = state_->partitions.find(key);
  if (!partition) return {};
  return PartitionSnapshot::save(*partition, tag);
}

SnapshotTag Engine::restore(PartitionKey key, std::span<const std::byte> snapshot) {
  const AlignedBytes bytes(snapshot);
  const SnapshotReader reader(bytes.view());
  const auto partition = PartitionSnapshot::restore(reader, state_->space, key);
  state_->partitions.put(partition);
  request_links(partition);
  SnapshotTag tag{};
  static_assert(sizeof(tag) == SnapshotHeader::kTagBytes);
  std::memcpy(tag.data(), reader.header().tag, tag.size());
  return tag;
}

std::vector<PartitionName> Engine::sweep(std::size_t most) {
  std::vector<PartitionName> names;
  for (const auto& partition : state_->partitions.sweep(most)) {
    const PartitionKey key = partition->key();
    names.push_back({std::string(key.app), std::string(key.user)});
  }
  return names;
}

bool Engine::contains(PartitionKey key) const {
  return static_cast<bool>(state_->partitions.find(key));
}

std::size_t Engine::size(PartitionKey key) const {
  const auto partition = state_->partitions.find(key);
  if (!partition) return 0;
  const ReaderLock lock(partition->mutex());
  return partition->size();
}

std::size_t Engine::partitions() const {
  return state_->partitions.size();
}

std::size_t Engine::dim() const noexcept {
  return state_->space->rows.dim();
}

std::size_t Engine::nbytes() const {
  return state_->partitions.nbytes();
}

std::size_t Engine::nbytes_of(PartitionKey key) const {
  const auto partition = state_->partitions.find(key);
  if (!partition) return 0;
  const ReaderLock lock(partition->mutex());
  return partition->nbytes();
}

}  // namespace vecall

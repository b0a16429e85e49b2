#include "partition/partition_snapshot.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "index/graph_snapshot.hpp"
#include "rows/row_table_snapshot.hpp"
#include "sync/fork_gate.hpp"
#include "sync/locks.hpp"
#include "terms/postings_snapshot.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

SnapshotHeader header_of(const PartitionSpace& space, const RowTable& rows,
                         std::span<const std::byte> tag) {
  SnapshotHeader header{};
  std::memcpy(header.magic, SnapshotHeader::kMagic, sizeof(header.magic));
  header.version = SnapshotHeader::kVersion;
  header.byte_order = SnapshotHeader::kByteOrder;
  header.dim = static_cast<std::uint32_t>(space.rows.dim());
  header.codec = static_cast<std::uint8_t>(space.rows.codec());
  header.keep_float32 = space.rows.keeps_float32() ? 1 : 0;
  header.kind = static_cast<std::uint8_t>(space.graph.kind);
  header.has_meta = rows.has_meta() ? 1 : 0;
  header.slots = static_cast<std::uint32_t>(rows.slots());
  header.m = space.graph.m;
  header.ef_construction = space.graph.ef_construction;
  header.flat_bytes = space.graph.flat_bytes;
  header.rotation_seed = space.rows.seed();
  header.entry = kNoSlot;
  if (!tag.empty()) {  // which has no address
    std::memcpy(header.tag, tag.data(), std::min(tag.size(), sizeof(header.tag)));
  }
  return header;
}

void save_names(const RowTable& rows, const Labels& labels, SnapshotWriter& writer) {
  const auto save = [&](Section section, auto hash_of) {
    auto* hashes = writer.add_array<std::uint64_t>(section, rows.slots());
    for (Slot slot = 0; slot < rows.slots(); ++slot) {
      if (rows.is_live(slot)) hashes[slot] = hash_of(slot);
    }
  };
  save(Section::kSessions,
       [&](Slot slot) { return labels.sessions.hash(rows.session(slot)); });
  save(Section::kAuthors,
       [&](Slot slot) { return labels.authors.hash(rows.author(slot)); });
  save(Section::kKinds, [&](Slot slot) { return labels.kinds.hash(rows.kind(slot)); });
}

void check_ids(const RowTable& rows) {
  std::vector<RowId> ids;
  ids.reserve(rows.live());
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    if (rows.is_live(slot)) ids.push_back(rows.id(slot));
  }
  if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
    refuse_snapshot("two rows have one id");
  }
}

std::unique_ptr<RowNames> restore_names(const SnapshotReader& reader, RowTable& rows) {
  const std::size_t slots = rows.slots();
  const auto sessions = reader.array<std::uint64_t>(Section::kSessions, slots);
  const auto authors = reader.array<std::uint64_t>(Section::kAuthors, slots);
  const auto kinds = reader.array<std::uint64_t>(Section::kKinds, slots);
  auto names = std::make_unique<RowNames>();
  Labels& labels = names->labels;
  SessionOrder& order = names->sessions;
  for (Slot slot = 0; slot < slots; ++slot) {
    if (!rows.is_live(slot)) continue;
    const std::uint32_t session = labels.sessions.acquire(sessions[slot]);
    rows.set_session(slot, session, rows.position(slot));
    rows.set_labels(slot, labels.authors.acquire(authors[slot]),
                    labels.kinds.acquire(kinds[slot]));
    order.reserve(labels.sessions.numbers());
    order.add(slot, rows);  // most stand behind those of smaller slots
  }
  return names;
}

std::unique_ptr<Postings> restore_postings(const SnapshotReader& reader,
                                           const RowTable& rows) {
  auto postings = std::make_unique<Postings>();
  PostingsSnapshot::restore(
      reader, [&rows](Slot slot) { return rows.is_live(slot); }, *postings);
  return postings;
}

}  // namespace

std::vector<std::byte> PartitionSnapshot::save(const Partition& partition,
                                               std::span<const std::byte> tag,
                                               bool for_mapping) {
  if (tag.size() > SnapshotHeader::kTagBytes) {
    throw InvalidArgumentError("tag: must be at most 48 bytes");
  }
  for (;;) {
    GraphIndex* graph = nullptr;
    {
      const ReaderLock lock(partition.mutex());
      graph = partition.graph_.get();
    }
    auto pass = ForkGate::enter();
    std::unique_lock<FairMutex> paused;
    if (graph != nullptr) paused = GraphSnapshot::pause(*graph);
    std::optional<SnapshotWriter> writer;
    {
      const ReaderLock lock(partition.mutex());
      // A graph that came meanwhile may be growing.
      if (partition.graph_.get() == graph) {
        writer = save_locked(partition, tag, for_mapping);
      }
    }
    if (!writer) continue;
    // Neither writers of the partition nor a fork wait for the checksums.
    if (paused.owns_lock()) paused.unlock();
    pass.unlock();
    return std::move(*writer).finish();
  }
}

SnapshotWriter PartitionSnapshot::save_locked(const Partition& partition,
                                              std::span<const std::byte> tag,
                                              bool for_mapping) {
  const RowTable& rows = partition.rows_;
  SnapshotWriter writer(header_of(*partition.space_, rows, tag),
                        kSnapshotFront + partition.nbytes());
  const GraphIndex* graph = partition.graph_.get();
  RowTableSnapshot::save(
      rows,
      [graph](Slot slot) {
        return graph != nullptr && GraphSnapshot::is_linked(*graph, slot);
      },
      writer);
  if (rows.has_meta() && partition.names_)
    save_names(rows, partition.names_->labels, writer);
  if (partition.postings_) PostingsSnapshot::save(*partition.postings_, writer);
  if (graph != nullptr && graph->ready()) {
    GraphSnapshot::save(*graph, rows, for_mapping, writer);
  }
  return writer;
}

Ref<const PartitionSpace> PartitionSnapshot::space_of(const SnapshotReader& reader) {
  const SnapshotHeader& header = reader.header();
  if (header.dim > kMaxDim || header.codec > 2 || header.kind > 2 ||
      header.m < kLeastLinks || header.m > kMostLinks || header.ef_construction < 1 ||
      header.ef_construction > kMostBreadth || header.keep_float32 > 1 ||
      header.has_meta > 1 || header.has_graph > 1) {
    refuse_snapshot("an option is outside what is allowed");
  }
  Options options;
  options.graph = {static_cast<IndexKind>(header.kind), header.m,
                   header.ef_construction, static_cast<std::size_t>(header.flat_bytes)};
  options.codec = static_cast<Codec>(header.codec);
  options.keep_float32 = header.keep_float32 != 0;
  options.seed = header.rotation_seed;
  return make_ref<const PartitionSpace>(header.dim, options);
}

Ref<Partition> PartitionSnapshot::restore(const SnapshotReader& reader,
                                          const Ref<const PartitionSpace>& space,
                                          PartitionKey key) {
  const SnapshotHeader& header = reader.header();
  (void)space_of(reader);
  if (header.dim != space->rows.dim() ||
      header.codec != static_cast<std::uint8_t>(space->rows.codec()) ||
      (header.keep_float32 != 0) != space->rows.keeps_float32() ||
      header.rotation_seed != space->rows.seed()) {
    throw IncompatibleDataError("snapshot: holds vectors of another form");
  }
  const bool has_more = header.has_meta != 0 || reader.has(Section::kExpiries) ||
                        reader.has(Section::kTerms);
  if (reader.stays_mapped() && has_more) {
    throw IncompatibleDataError(
        "snapshot: only what an Index saved can be mapped, not a partition with words, "
        "times or sessions");
  }
  auto partition = make_ref<Partition>(space, key);
  const WriterLock lock(partition->mutex());  // free: no other thread has the partition
  RowTable& rows = partition->rows_;
  RowTableSnapshot::restore(reader, rows);
  if (!reader.stays_mapped()) {
    check_ids(rows);
    partition->ids_.reserve(rows.slots(), rows);
  }
  if (rows.has_meta() && reader.has(Section::kSessions)) {
    partition->names_ = restore_names(reader, rows);
  }
  if (reader.has(Section::kTerms)) {
    partition->postings_ = restore_postings(reader, rows);
  }
  const GraphOptions& options = space->graph;
  if (rows.vectors() > 0 &&
      options.wants_graph(rows.vectors() * rows.space().high_bytes())) {
    partition->graph_ = std::make_unique<GraphIndex>(options);
    // A graph of another shape is left to be built again.
    if (header.has_graph != 0 && header.m == options.m) {
      GraphSnapshot::restore(reader, rows, *partition->graph_);
    }
  }
  return partition;
}

void PartitionSnapshot::find_ids(Partition& partition) {
  const auto pass = ForkGate::enter();
  const WriterLock lock(partition.mutex());
  if (partition.ids_.nbytes() > 0) return;
  check_ids(partition.rows_);
  partition.ids_.reserve(partition.rows_.slots(), partition.rows_);
}

}  // namespace vecall

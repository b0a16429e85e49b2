#pragma once

// Many partitions, one for each (app, user), of rows with vectors, words, times and
// sessions. A call sees the partition of its key and nothing else. The engine knows no
// text, no SQL, no clock, no files and no network.
//
// Thread safety: every method may be called from any thread at any time. Writes exclude
// other calls of their partition alone. Calls with a WaitHook call it before they wait
// for a writer or begin a search that takes long.

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "vecall/options.hpp"
#include "vecall/types.hpp"
#include "vecall/wait_hook.hpp"

namespace vecall {

// The caller's bytes that come back with a snapshot, padded with zeros.
using SnapshotTag = std::array<std::byte, 48>;

class Engine {
 public:
  // `dim` is the length of every vector, 0 for an engine of words alone. Throws
  // LimitExceededError above kMaxDim, InvalidArgumentError for an option outside what
  // is allowed, and ConfigError for a bad VECALL_ISA.
  explicit Engine(std::size_t dim, const Options& options = {});
  ~Engine();
  Engine(Engine&& other) noexcept;
  Engine& operator=(Engine&& other) noexcept;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Adds rows or replaces those with the same id; makes the partition if need be.
  // Vectors may have any norm. Throws InvalidArgumentError for NaN, Inf, a zero vector
  // or a wrong size, and then nothing has changed.
  void add(PartitionKey key, const RowBatch& batch);
  // Returns how many of the ids were there.
  std::size_t remove(PartitionKey key, std::span<const RowId> ids);
  // Frees a whole partition; true if there was one.
  bool drop(PartitionKey key);
  // Links here the rows that the background would link. What was linked before the
  // hook throws stays.
  void build(PartitionKey key, PauseHook pause = {});

  // The k best rows by cosine that pass, best first. An unknown key finds nothing.
  // REQUIRES: the query's vector has norm 1 (vecall/normalise.hpp) and dim() values,
  // k > 0.
  void search(PartitionKey key, const SearchQuery& query, std::vector<Hit>& hits,
              WaitHook before_wait = {}) const;
  // The best rows by words and vector together, best first; rows that tie with the
  // last one in score and time are all returned, so there can be more than k.
  // REQUIRES: the query's vector is empty, or as for search().
  RecallSummary recall(PartitionKey key, const RecallQuery& query,
                       std::vector<RecallHit>& hits, WaitHook before_wait = {}) const;

  // A partition as checksummed bytes; none if there is none. The format:
  // docs/reference/snapshot-format.md.
  // Throws InvalidArgumentError for a tag that is longer than SnapshotTag.
  [[nodiscard]] std::vector<std::byte> snapshot(PartitionKey key,
                                                std::span<const std::byte> tag) const;
  // Replaces the partition by that of a snapshot; returns the snapshot's tag. Throws
  // CorruptDataError or IncompatibleDataError, and then nothing has changed.
  SnapshotTag restore(PartitionKey key, std::span<const std::byte> snapshot);

  // Up to `most` partitions that were not looked up since the sweep came by last, to be
  // dropped where memory is short (the clock algorithm).
  [[nodiscard]] std::vector<PartitionName> sweep(std::size_t most);

  [[nodiscard]] bool contains(PartitionKey key) const;
  [[nodiscard]] std::size_t size(PartitionKey key) const;
  [[nodiscard]] std::size_t partitions() const;
  [[nodiscard]] std::size_t dim() const noexcept;
  // Bytes of memory.
  [[nodiscard]] std::size_t nbytes() const;
  [[nodiscard]] std::size_t nbytes_of(PartitionKey key) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vecall

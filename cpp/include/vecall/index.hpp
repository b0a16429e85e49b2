#pragma once

// Nearest neighbours by cosine in one set of vectors: an engine of one partition,
// without words, times and names.
//
// Thread safety: every method may be called from any thread at any time. Calls with a
// WaitHook call it before they wait for a writer or begin a search that takes long.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vecall/options.hpp"
#include "vecall/types.hpp"
#include "vecall/wait_hook.hpp"

namespace vecall {

struct SearchOptions {
  std::size_t k = 10;
  std::size_t ef = 64;  // breadth of a search of the graph; scans do not use it
  bool exact = false;   // look at every row, score from float32 where it is stored
  // The ids that may be found; nothing means all.
  std::optional<std::span<const RowId>> only = std::nullopt;
  // Instead: one byte for each of ids(), in their order; 0 = may not be found.
  std::optional<std::span<const std::uint8_t>> mask = std::nullopt;
};

// Throws the error for a mask of another length than `wanted`.
[[noreturn]] void refuse_mask(std::size_t wanted);

class Index {
 public:
  // `dim` is the length of every vector. Throws InvalidArgumentError for a dim of 0 and
  // for an option outside what is allowed, LimitExceededError above kMaxDim, and
  // ConfigError for a bad VECALL_ISA.
  explicit Index(std::size_t dim, const Options& options = {});
  // Reads what save() and to_bytes() wrote. Throws FileError (MissingFileError where
  // there is none), CorruptDataError or IncompatibleDataError.
  [[nodiscard]] static Index load(const std::string& path);
  // The same, but leaves vectors, ids and links in the file, which is mapped and read
  // where a search needs it. The index cannot be changed: add(), remove() and build()
  // throw ReadOnlyError. The sections that are left are not verified; save() and
  // to_bytes() do so. Throws IncompatibleDataError too for a partition of an Engine
  // that holds more than vectors.
  [[nodiscard]] static Index map(const std::string& path);
  [[nodiscard]] static Index from_bytes(std::span<const std::byte> bytes);
  ~Index();
  Index(Index&& other) noexcept;
  Index& operator=(Index&& other) noexcept;
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // Adds vectors, a matrix (n, dim) of any norm, or replaces those whose id is here;
  // the last of equal ids wins. Throws InvalidArgumentError for NaN, Inf or a zero
  // vector, and then nothing was added. Rows are found at once and linked in the
  // background.
  void add(std::span<const RowId> ids, std::span<const float> vectors);
  // Returns how many of the ids were here.
  std::size_t remove(std::span<const RowId> ids);
  // Links here the rows that the background would link, by up to `threads` threads, at
  // most one a processor; the graph does not depend on how many. What was linked before
  // the hook throws stays.
  void build(std::size_t threads = 1, PauseHook pause = {});

  // The k nearest vectors, best first; equal cosines by smaller id. A zero vector finds
  // nothing. Throws DimensionError, and InvalidArgumentError for NaN, Inf, a k of 0 or
  // a mask of another length.
  void search(std::span<const float> query, const SearchOptions& options,
              std::vector<Hit>& hits, WaitHook before_wait = {}) const;
  [[nodiscard]] std::vector<Hit> search(std::span<const float> query,
                                        const SearchOptions& options = {}) const;
  // Answers a matrix (n, dim) of queries by up to `threads` threads, at most one a
  // processor. `ids` and `scores`, (n, k) each, get the hits; where a row has fewer, id
  // -1 and score -inf. Each query sees the rows of one moment; a long batch lets writes
  // in between. Throws as search() does, and InvalidArgumentError for other sizes.
  void search_batch(std::span<const float> queries, const SearchOptions& options,
                    std::size_t threads, std::span<RowId> ids, std::span<float> scores,
                    PauseHook pause = {}) const;

  // Writes a file, which then is the new one whole or the old one. `for_mapping` adds
  // what map() would make of every row. Throws FileError, and CorruptDataError where
  // the index is mapped and its file is damaged.
  void save(const std::string& path, bool for_mapping = false) const;
  [[nodiscard]] std::vector<std::byte> to_bytes(bool for_mapping = false) const;

  [[nodiscard]] std::size_t dim() const noexcept;
  [[nodiscard]] IndexKind kind() const noexcept;
  [[nodiscard]] bool is_mapped() const noexcept;
  [[nodiscard]] std::size_t size(WaitHook before_wait = {}) const;
  [[nodiscard]] bool contains(RowId id, WaitHook before_wait = {}) const;
  // In an order that stays until rows are added or removed.
  [[nodiscard]] std::vector<RowId> ids(WaitHook before_wait = {}) const;
  // Vectors that the graph answers for.
  [[nodiscard]] std::size_t linked(WaitHook before_wait = {}) const;
  // Bytes of memory, without those of a mapped file.
  [[nodiscard]] std::size_t nbytes(WaitHook before_wait = {}) const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state) noexcept;
  void check_writable() const;
  // Makes a mapped index able to look for ids. Returns the hook if it was not called.
  [[nodiscard]] WaitHook find_ids(WaitHook before_wait) const;

  std::unique_ptr<State> state_;
};

}  // namespace vecall

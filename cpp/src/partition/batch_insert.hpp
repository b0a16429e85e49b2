#pragma once

// Adding a batch of rows in two steps: first everything that can fail, where no
// search sees it; then what cannot. If the first step runs out of memory, the partition
// is as it was. Callers hold the partition's lock, unique, during both.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/partition.hpp"
#include "vectors/row_codes.hpp"

namespace vecall {

class Partition::BatchInsert {
 public:
  // Makes room for the batch and indexes its words and names. Must be committed.
  BatchInsert(Partition& partition, const RowBatch& batch)
      VECALL_REQUIRES(partition.mutex());
  ~BatchInsert() = default;
  BatchInsert(const BatchInsert&) = delete;
  BatchInsert& operator=(const BatchInsert&) = delete;

  // Removes what is replaced and shows the new rows.
  void commit() noexcept;  // under the same lock

 private:
  // A row of the batch and what was taken for it.
  struct Staged {
    std::size_t row = 0;
    Slot slot = RowTable::kNoSlot;  // of a row with words; others take theirs last
    std::uint32_t session = 0;
    std::uint32_t author = 0;
    std::uint32_t kind = 0;
  };

  void choose_rows();
  void reserve() VECALL_REQUIRES(partition_.mutex());
  void stage(Staged& staged) VECALL_REQUIRES(partition_.mutex());
  void acquire_names(const RowMeta& meta, Staged& staged)
      VECALL_REQUIRES(partition_.mutex());
  void roll_back() noexcept VECALL_REQUIRES(partition_.mutex());
  void publish(const Staged& staged, Slot slot) noexcept
      VECALL_REQUIRES(partition_.mutex());
  [[nodiscard]] bool has_words(std::size_t row) const noexcept {
    return !batch_.offsets.empty() && batch_.offsets[row] != batch_.offsets[row + 1];
  }
  [[nodiscard]] bool has_vector(std::size_t row) const noexcept {
    return !batch_.has_vector.empty() && batch_.has_vector[row] != 0;
  }

  Partition& partition_;
  const RowBatch& batch_;
  std::vector<Staged> staged_;  // the last row of each id
  RowEncoder encoder_;
};

}  // namespace vecall

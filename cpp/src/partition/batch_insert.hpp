#pragma once

// Adding a batch of rows in two steps: first everything that can fail, where no
// search sees it; then what cannot. If the first step runs out of memory, the partition
// is as it was. One call at a time: the partition's `adding_` is held from the
// constructor on, and its lock where a method says so.
//
// The codes of many rows are copied to the slots behind the last one while searches go
// on: no reader looks there, and slots that are freed meanwhile stay free. Slots that
// were free before and slots of replaced rows get theirs under the lock.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "partition/encoded_batch.hpp"
#include "partition/partition.hpp"

namespace vecall {

class Partition::BatchInsert {
 public:
  BatchInsert(Partition& partition, const EncodedBatch& batch)
      : partition_(partition), batch_(batch) {}
  ~BatchInsert() = default;
  BatchInsert(const BatchInsert&) = delete;
  BatchInsert& operator=(const BatchInsert&) = delete;

  // Looks which rows are new. REQUIRES: the partition's lock is held, shared or unique.
  void begin();
  // Makes room for the rows; nothing that removes rows takes it away again. REQUIRES:
  // begin(); the lock is held, unique.
  void reserve();
  // Copies codes to where reserve() made room. Needs no lock. REQUIRES: reserve().
  void place_codes(RowTable& rows) noexcept;
  // Indexes words and names, then removes what is replaced and shows the new rows.
  // REQUIRES: reserve(); the lock is held, unique.
  void commit();

 private:
  // A row of the batch and what was taken for it.
  struct Staged {
    std::size_t row = 0;
    Slot slot = kNoSlot;    // of a row with words; others take theirs last
    Slot placed = kNoSlot;  // where its codes lie already
    std::uint32_t session = 0;
    std::uint32_t author = 0;
    std::uint32_t kind = 0;
    bool is_new = true;
  };

  void stage_all() VECALL_REQUIRES(partition_.mutex());
  void stage(Staged& staged) VECALL_REQUIRES(partition_.mutex());
  void acquire_names(const RowMeta& meta, Staged& staged)
      VECALL_REQUIRES(partition_.mutex());
  Slot allocate(const Staged& staged) noexcept VECALL_REQUIRES(partition_.mutex());
  void roll_back() noexcept VECALL_REQUIRES(partition_.mutex());
  void publish(const Staged& staged, Slot slot) noexcept
      VECALL_REQUIRES(partition_.mutex());

  Partition& partition_;
  const EncodedBatch& batch_;
  std::vector<Staged> staged_;
  std::size_t more_ = 0;        // rows that need a slot of their own
  std::size_t vectors_ = 0;     // rows with vectors
  std::size_t free_slots_ = 0;  // at begin(), and then at reserve()
  Slot first_ = 0;              // behind the last slot at reserve()
};

}  // namespace vecall

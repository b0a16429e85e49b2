#pragma once

// The rows of one partition by slot: ids, vectors as codes, times, sessions, authors.
// Chunks of kChunkRows rows never move once they are whole; the first one grows by
// copies while the partition is small. Not thread-safe: the partition's lock guards it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rows/row_layout.hpp"
#include "rows/row_space.hpp"
#include "rows/sign_plane.hpp"
#include "vecall/assert.hpp"
#include "vecall/types.hpp"
#include "vectors/row_codes.hpp"

namespace vecall {

class RowTable {
 public:
  static constexpr std::size_t kMostRows = 0x7FFF'FFFE;

  // `space` must outlive the table.
  explicit RowTable(const RowSpace& space);
  ~RowTable();
  RowTable(const RowTable&) = delete;
  RowTable& operator=(const RowTable&) = delete;

  // Makes room for `more` rows beside those that are there, with times, sessions and
  // authors if has_meta, with expiries if they expire. Strong guarantee; allocate()
  // cannot fail afterwards.
  void reserve(std::size_t more, bool has_meta, bool expires);
  // A slot for a new row, which no search sees yet: its columns are to be set and then
  // it is to be published. The one that was freed last, or where it has codes, that
  // behind all others. REQUIRES: reserved; where it has codes, put_codes() was called
  // for slots().
  Slot allocate(RowId id, bool has_codes = false) noexcept;
  void publish(Slot slot) noexcept;
  // Frees a slot, published or not.
  void release(Slot slot) noexcept;

  // Copies the codes of a vector to a slot. One that is reserved and not allocated yet
  // is read by nobody, so this may run while others read the table.
  void put_codes(Slot slot, const RowCodes& codes) noexcept;
  // The row has the vector whose codes are there. REQUIRES: the slot is published.
  void show_vector(Slot slot) noexcept;
  void set_expiry(Slot slot, Micros expires) noexcept;
  // A pending row waits to be linked into the graph: scans look at it, the graph does
  // not answer for it.
  void set_pending(Slot slot, bool pending) noexcept {
    const auto rest = static_cast<std::uint8_t>(flags(slot) & ~kPending);
    put(RowLayout::kFlags, slot,
        static_cast<std::uint8_t>(pending ? rest | kPending : rest));
  }

  [[nodiscard]] const RowSpace& space() const noexcept { return *space_; }
  [[nodiscard]] bool has_meta() const noexcept { return has_meta_; }
  // Slots ever taken; those of released rows among them.
  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }
  [[nodiscard]] std::size_t vectors() const noexcept { return vectors_; }
  [[nodiscard]] std::size_t free_slots() const noexcept { return slots_ - taken_; }
  // True if every slot is a live row with a vector, which spares a scan the question.
  [[nodiscard]] bool all_have_vectors() const noexcept { return vectors_ == slots_; }
  [[nodiscard]] bool any_expires_by(Micros now) const noexcept {
    return expiries_ && expiries_->rows > 0 && now >= expiries_->first;
  }
  // At least the factor of every row.
  [[nodiscard]] float largest_factor() const noexcept { return largest_factor_; }
  [[nodiscard]] std::size_t nbytes() const noexcept;
  // Bytes of one row: what the layout takes, without maps and lists.
  [[nodiscard]] std::size_t row_bytes() const noexcept { return layout_->row_bytes(); }

  [[nodiscard]] RowId id(Slot slot) const noexcept {
    return get<RowId>(RowLayout::kId, slot);
  }
  // The ids of the rows from `slot` on, to the chunk's end, and their times, null where
  // rows have none.
  [[nodiscard]] const RowId* ids(Slot slot) const noexcept {
    return reinterpret_cast<const RowId*>(column(RowLayout::kId, slot));
  }
  [[nodiscard]] const Micros* times(Slot slot) const noexcept {
    return has_meta_ ? reinterpret_cast<const Micros*>(column(RowLayout::kTime, slot))
                     : nullptr;
  }
  void prefetch_id(Slot slot) const noexcept {
    __builtin_prefetch(column(RowLayout::kId, slot));
    __builtin_prefetch(column(RowLayout::kFlags, slot));
  }
  // Every column of a row that is about to be released.
  void prefetch_row(Slot slot) const noexcept {
    for (std::size_t i = 0; i < RowLayout::kColumns; ++i) {
      const auto which = static_cast<RowLayout::Column>(i);
      if (layout_->bytes(which) > 0) __builtin_prefetch(column(which, slot), 1);
    }
  }
  // The ids of the first chunk, one after another; null while there is none.
  [[nodiscard]] const RowId* first_ids() const noexcept {
    return slots_ == 0 ? nullptr
                       : reinterpret_cast<const RowId*>(column(RowLayout::kId, 0));
  }
  [[nodiscard]] bool is_live(Slot slot) const noexcept {
    return (flags(slot) & kLive) != 0;
  }
  // Live and with a vector.
  [[nodiscard]] bool has_vector(Slot slot) const noexcept {
    return (flags(slot) & kVector) != 0;
  }
  [[nodiscard]] bool is_pending(Slot slot) const noexcept {
    return (flags(slot) & kPending) != 0;
  }
  [[nodiscard]] Micros time(Slot slot) const noexcept {
    return has_meta_ ? get<Micros>(RowLayout::kTime, slot) : 0;
  }
  [[nodiscard]] Micros expires(Slot slot) const noexcept {
    return expiries_ ? expiries_->at[slot] : kMaxTime;
  }
  // Numbers of the partition's dictionaries; 0 = none.
  [[nodiscard]] std::uint32_t session(Slot slot) const noexcept {
    return has_meta_ ? get<std::uint32_t>(RowLayout::kSession, slot) : 0;
  }
  [[nodiscard]] std::uint32_t author(Slot slot) const noexcept {
    return has_meta_ ? get<std::uint32_t>(RowLayout::kAuthor, slot) : 0;
  }
  [[nodiscard]] std::uint32_t kind(Slot slot) const noexcept {
    return has_meta_ ? get<std::uint32_t>(RowLayout::kKind, slot) : 0;
  }
  // NaN where a row of a session stands nowhere in it.
  [[nodiscard]] double position(Slot slot) const noexcept {
    return get<double>(RowLayout::kPosition, slot);
  }
  [[nodiscard]] Slot previous(Slot slot) const noexcept {
    return get<Slot>(RowLayout::kPrevious, slot);
  }
  [[nodiscard]] Slot next(Slot slot) const noexcept {
    return get<Slot>(RowLayout::kNext, slot);
  }
  // REQUIRES for the setters: has_meta().
  void set_time(Slot slot, Micros time) noexcept {
    VECALL_ASSERT(has_meta_);
    put(RowLayout::kTime, slot, time);
  }
  void set_session(Slot slot, std::uint32_t session, double position) noexcept {
    VECALL_ASSERT(has_meta_);
    put(RowLayout::kSession, slot, session);
    put(RowLayout::kPosition, slot, position);
  }
  void set_labels(Slot slot, std::uint32_t author, std::uint32_t kind) noexcept {
    VECALL_ASSERT(has_meta_);
    put(RowLayout::kAuthor, slot, author);
    put(RowLayout::kKind, slot, kind);
  }
  void set_previous(Slot slot, Slot to) noexcept {
    VECALL_ASSERT(has_meta_);
    put(RowLayout::kPrevious, slot, to);
  }
  void set_next(Slot slot, Slot to) noexcept {
    VECALL_ASSERT(has_meta_);
    put(RowLayout::kNext, slot, to);
  }

  // The high planes of the rows from `slot` on, one after another to the chunk's end.
  [[nodiscard]] const std::uint8_t* high(Slot slot) const noexcept {
    return column(RowLayout::kHigh, slot);
  }
  // The signs of the rows of whole chunks; null where there are none from `slot` on.
  [[nodiscard]] const SignPlane* signs(Slot slot) const noexcept {
    return signs_ && (signs_->has(slot) || make_signs(slot)) ? signs_.get() : nullptr;
  }
  // The other planes of one row, null where they are not stored.
  [[nodiscard]] const std::uint8_t* low(Slot slot) const noexcept {
    return space_->has_low() ? column(RowLayout::kLow, slot) : nullptr;
  }
  [[nodiscard]] const std::uint8_t* rest(Slot slot) const noexcept {
    return space_->has_rest() ? column(RowLayout::kRest, slot) : nullptr;
  }
  // REQUIRES: the space keeps float32.
  [[nodiscard]] const float* floats(Slot slot) const noexcept {
    VECALL_ASSERT(space_->keeps_float32());
    return reinterpret_cast<const float*>(column(RowLayout::kFloats, slot));
  }
  [[nodiscard]] const float* factors(Slot slot) const noexcept {
    return reinterpret_cast<const float*>(column(RowLayout::kFactor, slot));
  }
  [[nodiscard]] const float* steps(Slot slot) const noexcept {
    return reinterpret_cast<const float*>(column(RowLayout::kStep, slot));
  }
  [[nodiscard]] float step(Slot slot) const noexcept { return *steps(slot); }
  [[nodiscard]] float factor(Slot slot) const noexcept { return *factors(slot); }
  [[nodiscard]] RowCodes codes(Slot slot) const noexcept;
  // Rows of `slot`'s chunk from it on, at most up to slots().
  [[nodiscard]] std::size_t rows_in_chunk(Slot slot) const noexcept {
    const std::size_t left = kChunkRows - slot % kChunkRows;
    return left < slots_ - slot ? left : slots_ - slot;
  }

  // The order of equal scores: the newer row, then the smaller id.
  [[nodiscard]] bool precedes(Slot a, Slot b) const noexcept {
    const Micros time_a = time(a);
    const Micros time_b = time(b);
    return time_a != time_b ? time_a > time_b : id(a) < id(b);
  }

 private:
  friend class RowTableSnapshot;

  struct Expiries {
    std::vector<Micros> at;   // by slot
    Micros first = kMaxTime;  // at most that of any live row
    std::uint32_t rows = 0;   // that expire
  };

  static constexpr std::uint8_t kLive = 1;
  static constexpr std::uint8_t kVector = 2;
  static constexpr std::uint8_t kPending = 4;

  void grow_first(std::size_t rows);
  void add_chunks(std::size_t count);
  void add_meta();
  void add_signs();
  // Makes those of the chunk of a mapped table, where several threads may be the first
  // to need them. False where there is no memory: a scan can do without.
  [[nodiscard]] bool make_signs(Slot slot) const noexcept;
  // Makes an empty table one of so many rows of a snapshot, and returns its flags. Each
  // column that the layout has is to be set then, by its first row.
  [[nodiscard]] std::uint8_t* make_column_table(std::size_t slots);
  void set_column(RowLayout::Column column, const void* whole) noexcept;

  [[nodiscard]] std::byte* chunk_of(RowLayout::Column column,
                                    Slot slot) const noexcept {
    return table_[std::size_t{column_chunks_} * column + slot / kChunkRows];
  }
  [[nodiscard]] std::uint8_t* column(RowLayout::Column column,
                                     Slot slot) const noexcept {
    std::byte* chunk = chunk_of(column, slot);
    const std::size_t at = layout_->begin(column, chunk_rows_) +
                           layout_->bytes(column) * (slot % kChunkRows);
    return reinterpret_cast<std::uint8_t*>(chunk + at);
  }
  template <class T>
  [[nodiscard]] T get(RowLayout::Column of, Slot slot) const noexcept {
    const std::byte* chunk = chunk_of(of, slot);
    return reinterpret_cast<const T*>(
        chunk + layout_->begin(of, chunk_rows_))[slot % kChunkRows];
  }
  template <class T>
  void put(RowLayout::Column of, Slot slot, T value) noexcept {
    std::byte* chunk = chunk_of(of, slot);
    reinterpret_cast<T*>(chunk + layout_->begin(of, chunk_rows_))[slot % kChunkRows] =
        value;
  }
  [[nodiscard]] std::uint8_t flags(Slot slot) const noexcept {
    return get<std::uint8_t>(RowLayout::kFlags, slot);
  }

  const RowSpace* space_;
  const RowLayout* layout_;
  std::byte** table_ = &first_;  // the chunks, owned; an array of them where several
  std::byte* first_ = nullptr;
  std::unique_ptr<Expiries> expiries_;  // null until a row expires
  std::unique_ptr<SignPlane> signs_;    // null until a chunk is whole
  std::uint32_t chunks_ = 0;
  std::uint32_t chunk_rows_ = 0;  // capacity of each chunk
  // Not 0 where the columns lie whole in a snapshot, in which nothing is written: the
  // table then owns no chunks and never changes, and for each column has pointers to
  // so many pieces of kChunkRows rows. The flags lie behind these pointers.
  std::uint32_t column_chunks_ = 0;
  std::uint32_t slots_ = 0;
  std::uint32_t taken_ = 0;  // slots that are not free
  std::uint32_t live_ = 0;   // of them, published
  std::uint32_t vectors_ = 0;
  Slot first_free_ = kNoSlot;  // the id of a released row is the next free slot
  float largest_factor_ = 0;
  bool has_meta_ = false;
};

}  // namespace vecall

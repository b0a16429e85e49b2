#include "rows/row_table.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "allocation/pages.hpp"
#include "vecall/assert.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr std::size_t kAlignedFrom = 16'384;  // smaller chunks spare the alignment

OwnedPages allocate_chunk(std::size_t bytes) {
  void* chunk = bytes >= kAlignedFrom ? allocate_pages(bytes) : allocate_bytes(bytes);
  return OwnedPages(static_cast<std::byte*>(chunk));
}

// Room for `wanted` rows: exactly that for the first batch, a quarter more later, so
// that a small partition wastes little and one that is fed row by row is rarely copied.
std::size_t grown_capacity(std::size_t wanted, std::size_t capacity) noexcept {
  const std::size_t more = capacity == 0 ? wanted : capacity + capacity / 4 + 4;
  return std::min(std::max(wanted, more), kChunkRows);
}

}  // namespace

RowTable::RowTable(const RowSpace& space)
    : space_(&space), layout_(&space.layout(false)) {}

RowTable::~RowTable() {
  for (std::size_t i = 0; i < chunks_; ++i) free_pages(table_[i]);
  if (table_ != &first_) std::free(static_cast<void*>(table_));
}

void RowTable::reserve(std::size_t more, bool has_meta, bool expires) {
  if (has_meta && !has_meta_) add_meta();
  const std::size_t free = free_slots();
  const std::size_t wanted = slots_ + (more > free ? more - free : 0);
  if (wanted > kMostRows) {
    throw LimitExceededError("rows: a partition holds at most 2^31 - 2 rows");
  }
  if (expires || expiries_) {
    if (!expiries_) {  // whole or not at all: release() looks into it
      expiries_ =
          std::make_unique<Expiries>(Expiries{std::vector<Micros>(wanted, kMaxTime)});
    }
    std::vector<Micros>& at = expiries_->at;
    if (at.capacity() < wanted) at.reserve(wanted + wanted / 2);
    if (at.size() < wanted) at.resize(wanted, kMaxTime);
  }
  if (wanted > chunk_rows_ && chunk_rows_ < kChunkRows) {
    grow_first(grown_capacity(wanted, chunk_rows_));
  }
  const std::size_t chunks = (wanted + kChunkRows - 1) / kChunkRows;
  if (chunks > chunks_) add_chunks(chunks);
  if (chunk_rows_ == kChunkRows && space_->has_signs()) add_signs();
}

// The only chunk moves to a larger block.
void RowTable::grow_first(std::size_t rows) {
  OwnedPages grown = allocate_chunk(rows * layout_->row_bytes());
  for (std::size_t i = 0; slots_ > 0 && i < RowLayout::kColumns; ++i) {
    const auto which = static_cast<RowLayout::Column>(i);
    const std::size_t bytes = layout_->bytes(which) * slots_;
    if (bytes == 0) continue;
    std::memcpy(grown.get() + layout_->begin(which, rows), column(which, 0), bytes);
  }
  free_pages(first_);
  first_ = grown.release();
  chunks_ = 1;
  chunk_rows_ = static_cast<std::uint32_t>(rows);
}

void RowTable::add_chunks(std::size_t count) {
  std::vector<OwnedPages> made;
  for (std::size_t i = chunks_; i < count; ++i) {
    made.push_back(allocate_chunk(kChunkRows * layout_->row_bytes()));
  }
  auto* table = static_cast<std::byte**>(std::malloc(count * sizeof(std::byte*)));
  if (table == nullptr) throw std::bad_alloc();
  std::copy_n(table_, chunks_, table);
  for (std::size_t i = chunks_; i < count; ++i) table[i] = made[i - chunks_].release();
  if (table_ != &first_) std::free(static_cast<void*>(table_));
  table_ = table;
  chunks_ = static_cast<std::uint32_t>(count);
}

void RowTable::add_signs() {
  if (!signs_) signs_ = std::make_unique<SignPlane>(*space_);
  while (signs_->chunks() < chunks_) {
    auto slot = static_cast<Slot>(signs_->chunks() * kChunkRows);
    signs_->add_chunk();
    for (; slot < slots_ && signs_->has(slot); ++slot) {
      signs_->put(slot, high(slot), factor(slot));
    }
  }
}

bool RowTable::make_signs(Slot slot) const noexcept {
  if (column_chunks_ == 0) return false;
  const Slot first = slot - slot % static_cast<Slot>(kChunkRows);
  return signs_->make(first, rows_in_chunk(first), high(first), factors(first));
}

std::uint8_t* RowTable::make_column_table(std::size_t slots) {
  VECALL_ASSERT(chunks_ == 0 && column_chunks_ == 0);
  const std::size_t chunks =
      std::max<std::size_t>((slots + kChunkRows - 1) / kChunkRows, 1);
  const std::size_t pointers = chunks * RowLayout::kColumns;
  void* table = std::malloc(pointers * sizeof(std::byte*) + slots);
  if (table == nullptr) throw std::bad_alloc();
  table_ = static_cast<std::byte**>(table);
  column_chunks_ = static_cast<std::uint32_t>(chunks);
  std::fill_n(table_, pointers, nullptr);
  auto* flags = reinterpret_cast<std::uint8_t*>(table_ + pointers);
  set_column(RowLayout::kFlags, flags);
  return flags;
}

void RowTable::set_column(RowLayout::Column column, const void* whole) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only read
  auto* piece = static_cast<std::byte*>(const_cast<void*>(whole));
  for (std::size_t i = 0; i < column_chunks_; ++i) {
    table_[std::size_t{column_chunks_} * column + i] = piece;
    piece += kChunkRows * layout_->bytes(column);
  }
}

// Rows that came without times, sessions and authors get room for them: every chunk is
// laid out again.
void RowTable::add_meta() {
  const RowLayout& full = space_->layout(true);
  std::vector<OwnedPages> made;
  for (std::size_t i = 0; i < chunks_; ++i) {
    made.push_back(allocate_chunk(chunk_rows_ * full.row_bytes()));
  }
  for (std::size_t i = 0; i < chunks_; ++i) {
    std::byte* chunk = made[i].release();
    for (std::size_t which = 0; which < RowLayout::kColumns; ++which) {
      const auto of = static_cast<RowLayout::Column>(which);
      std::byte* to = chunk + full.begin(of, chunk_rows_);
      const std::size_t bytes = layout_->bytes(of) * chunk_rows_;
      if (bytes > 0) {
        std::memcpy(to, table_[i] + layout_->begin(of, chunk_rows_), bytes);
      } else if (of == RowLayout::kPrevious || of == RowLayout::kNext) {
        std::memset(to, 0xFF, full.bytes(of) * chunk_rows_);  // kNoSlot
      } else {
        std::memset(to, 0, full.bytes(of) * chunk_rows_);
      }
    }
    free_pages(table_[i]);
    table_[i] = chunk;
  }
  layout_ = &full;
  has_meta_ = true;
}

Slot RowTable::allocate(RowId id, bool has_codes) noexcept {
  Slot slot = has_codes ? kNoSlot : first_free_;
  if (slot == kNoSlot) {
    VECALL_ASSERT(slots_ < std::size_t{chunks_} * chunk_rows_);
    slot = slots_++;
    put(RowLayout::kFlags, slot, std::uint8_t{0});
  } else {
    first_free_ = static_cast<Slot>(this->id(slot));
  }
  put(RowLayout::kId, slot, id);
  if (expiries_) expiries_->at[slot] = kMaxTime;
  if (has_meta_) {
    set_time(slot, 0);
    set_session(slot, 0, 0.0);
    set_labels(slot, 0, 0);
    set_previous(slot, kNoSlot);
    set_next(slot, kNoSlot);
  }
  if (space_->dim() > 0 && !has_codes) {
    // A scan reads the codes of every slot, so they must be there.
    const RowCodes codes = this->codes(slot);
    std::memset(codes.high, 0, space_->high_bytes());
    *codes.factor = 0.0F;
    if (signs(slot) != nullptr) signs_->clear(slot);
  }
  ++taken_;
  return slot;
}

void RowTable::publish(Slot slot) noexcept {
  put(RowLayout::kFlags, slot, static_cast<std::uint8_t>(flags(slot) | kLive));
  ++live_;
}

void RowTable::release(Slot slot) noexcept {
  if (has_vector(slot)) --vectors_;
  if (is_live(slot)) --live_;
  if (expires(slot) != kMaxTime) --expiries_->rows;
  put(RowLayout::kFlags, slot, static_cast<std::uint8_t>(flags(slot) & kPending));
  put(RowLayout::kId, slot, static_cast<RowId>(first_free_));
  first_free_ = slot;
  --taken_;
}

void RowTable::put_codes(Slot slot, const RowCodes& codes) noexcept {
  VECALL_ASSERT(slot < std::size_t{chunks_} * chunk_rows_);
  const RowCodes row = this->codes(slot);
  if (row.high == nullptr || row.factor == nullptr || row.step == nullptr) return;
  std::memcpy(row.high, codes.high, space_->high_bytes());
  if (row.low != nullptr) std::memcpy(row.low, codes.low, space_->low_bytes());
  if (row.rest != nullptr) std::memcpy(row.rest, codes.rest, space_->rest_bytes());
  if (row.floats != nullptr) {
    std::memcpy(row.floats, codes.floats, space_->float_bytes());
  }
  *row.factor = *codes.factor;
  *row.step = *codes.step;
  if (signs(slot) != nullptr) signs_->put(slot, codes.high, *codes.factor);
}

void RowTable::show_vector(Slot slot) noexcept {
  VECALL_ASSERT(is_live(slot));
  largest_factor_ = std::max(largest_factor_, factor(slot));
  if (!has_vector(slot)) ++vectors_;
  put(RowLayout::kFlags, slot, static_cast<std::uint8_t>(flags(slot) | kVector));
}

void RowTable::set_expiry(Slot slot, Micros expires) noexcept {
  if (expires == kMaxTime) return;
  expiries_->at[slot] = expires;
  ++expiries_->rows;
  expiries_->first = std::min(expiries_->first, expires);
}

RowCodes RowTable::codes(Slot slot) const noexcept {
  const auto at = [this, slot](RowLayout::Column which) {
    return layout_->bytes(which) == 0 ? nullptr : column(which, slot);
  };
  return {at(RowLayout::kHigh),
          at(RowLayout::kLow),
          at(RowLayout::kRest),
          reinterpret_cast<float*>(at(RowLayout::kFloats)),
          reinterpret_cast<float*>(at(RowLayout::kFactor)),
          reinterpret_cast<float*>(at(RowLayout::kStep))};
}

std::size_t RowTable::nbytes() const noexcept {
  return std::size_t{chunks_} * chunk_rows_ * layout_->row_bytes() +
         (table_ == &first_ ? 0 : chunks_ * sizeof(std::byte*)) +
         std::size_t{column_chunks_} * RowLayout::kColumns * sizeof(std::byte*) +
         (column_chunks_ == 0 ? 0 : slots_) + (signs_ ? signs_->nbytes() : 0) +
         (expiries_ ? sizeof(Expiries) + expiries_->at.capacity() * sizeof(Micros) : 0);
}

}  // namespace vecall

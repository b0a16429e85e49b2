#include "rows/row_table_snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

struct SavedColumn {
  RowLayout::Column column;
  Section section;
};

constexpr SavedColumn kVectorColumns[] = {
    {RowLayout::kHigh, Section::kHigh},      {RowLayout::kLow, Section::kLow},
    {RowLayout::kRest, Section::kRest},      {RowLayout::kFloats, Section::kFloats},
    {RowLayout::kFactor, Section::kFactors}, {RowLayout::kStep, Section::kSteps}};
constexpr SavedColumn kRowColumns[] = {{RowLayout::kId, Section::kIds},
                                       {RowLayout::kTime, Section::kTimes},
                                       {RowLayout::kPosition, Section::kPlaces}};

// The flags of a slot, which do not contradict each other.
unsigned checked_flags(unsigned flags, const RowTable& rows) {
  constexpr unsigned kKnown = kFlagLive | kFlagVector | kFlagPending | kFlagLinked;
  const bool live = (flags & kFlagLive) != 0;
  const bool vector = (flags & kFlagVector) != 0;
  if ((flags & ~kKnown) != 0 || (vector && (!live || rows.space().dim() == 0))) {
    refuse_snapshot("a row has flags that contradict each other");
  }
  return flags;
}

// Those of a vector of norm 1 are far smaller. Above, a score could overflow.
bool is_of_norm_1(float value) noexcept {
  constexpr float kMost = 1e6F;
  return std::abs(value) <= kMost;  // not NaN either
}

bool is_waypoint(RowLayout::Column column) noexcept {
  return column == RowLayout::kHigh || column == RowLayout::kFactor;
}

}  // namespace

void RowTableSnapshot::save(const RowTable& rows,
                            const std::function<bool(Slot)>& is_linked,
                            SnapshotWriter& writer) {
  const std::size_t slots = rows.slots();
  const auto save_column = [&](const SavedColumn& saved, auto wanted) {
    const std::size_t bytes = rows.layout_->bytes(saved.column);
    if (bytes == 0) return;
    std::byte* out = writer.add(saved.section, slots * bytes);
    for (Slot slot = 0; slot < slots; ++slot, out += bytes) {
      if (wanted(slot)) std::memcpy(out, rows.column(saved.column, slot), bytes);
    }
  };
  for (const SavedColumn& saved : kVectorColumns) {
    save_column(saved, [&](Slot slot) {
      return rows.has_vector(slot) || (is_waypoint(saved.column) && is_linked(slot));
    });
  }
  for (const SavedColumn& saved : kRowColumns) {
    save_column(saved, [&](Slot slot) { return rows.is_live(slot); });
  }
  auto* flags = writer.add_array<std::uint8_t>(Section::kFlags, slots);
  for (Slot slot = 0; slot < slots; ++slot) {
    flags[slot] = static_cast<std::uint8_t>((rows.is_live(slot) ? kFlagLive : 0) |
                                            (rows.has_vector(slot) ? kFlagVector : 0) |
                                            (rows.is_pending(slot) ? kFlagPending : 0) |
                                            (is_linked(slot) ? kFlagLinked : 0));
  }
  if (!rows.expiries_ || rows.expiries_->rows == 0) return;
  auto* expiries = writer.add_array<Micros>(Section::kExpiries, slots);
  for (Slot slot = 0; slot < slots; ++slot) {
    expiries[slot] = rows.is_live(slot) ? rows.expires(slot) : kMaxTime;
  }
}

void RowTableSnapshot::copy_in(std::span<const std::byte> from,
                               RowLayout::Column column, RowTable& rows) {
  const std::size_t bytes = rows.layout_->bytes(column);
  for (Slot slot = 0; slot < rows.slots();) {
    const std::size_t count = rows.rows_in_chunk(slot);
    std::memcpy(rows.column(column, slot), from.data() + slot * bytes, count * bytes);
    slot += static_cast<Slot>(count);
  }
}

void RowTableSnapshot::restore(const SnapshotReader& reader, RowTable& rows) {
  const SnapshotHeader& header = reader.header();
  const std::size_t slots = header.slots;
  if (header.has_meta != 0 && reader.has(Section::kPositions)) {
    throw IncompatibleDataError("snapshot: has positions of an older form");
  }
  if (slots > RowTable::kMostRows) refuse_snapshot("more slots than there can be");
  // Every section is as long as its slots need before memory is taken for them.
  const RowLayout& layout = rows.space().layout(header.has_meta != 0);
  const auto check_length = [&](const SavedColumn& saved) {
    const std::size_t bytes = layout.bytes(saved.column);
    if (bytes > 0) (void)reader.array<std::byte>(saved.section, slots * bytes);
  };
  for (const SavedColumn& saved : kVectorColumns) check_length(saved);
  for (const SavedColumn& saved : kRowColumns) check_length(saved);
  if (reader.stays_mapped()) {
    map(reader, rows);
    return;
  }
  rows.reserve(slots, header.has_meta != 0, reader.has(Section::kExpiries));
  for (std::size_t slot = 0; slot < slots; ++slot) rows.allocate(0);
  const auto restore_column = [&](const SavedColumn& saved) {
    const std::size_t bytes = rows.layout_->bytes(saved.column);
    if (bytes == 0) return;
    copy_in(reader.array<std::byte>(saved.section, slots * bytes), saved.column, rows);
  };
  for (const SavedColumn& saved : kVectorColumns) restore_column(saved);
  for (const SavedColumn& saved : kRowColumns) restore_column(saved);
  restore_flags(reader, rows);
  check_numbers(rows);
  for (Slot slot = 0; slot < slots && rows.signs(slot) != nullptr; ++slot) {
    rows.signs_->put(slot, rows.high(slot), rows.factor(slot));
  }
}

void RowTableSnapshot::map(const SnapshotReader& reader, RowTable& rows) {
  const std::size_t slots = reader.header().slots;
  const auto flags = reader.verified<std::uint8_t>(Section::kFlags, slots);
  (void)reader.verified<float>(Section::kFactors, slots);
  (void)reader.verified<float>(Section::kSteps, slots);
  std::uint8_t* own_flags = rows.make_column_table(slots);
  const auto map_column = [&](const SavedColumn& saved) {
    const std::size_t bytes = rows.layout_->bytes(saved.column);
    if (bytes == 0) return;
    const auto whole = reader.array<std::byte>(saved.section, slots * bytes);
    rows.set_column(saved.column, whole.data());
  };
  for (const SavedColumn& saved : kVectorColumns) map_column(saved);
  for (const SavedColumn& saved : kRowColumns) map_column(saved);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const unsigned flag = checked_flags(flags[slot], rows);
    rows.live_ += flag & kFlagLive;
    rows.vectors_ += (flag & kFlagVector) != 0 ? 1 : 0;
    own_flags[slot] = static_cast<std::uint8_t>(flag & (kFlagLive | kFlagVector));
  }
  rows.taken_ = rows.live_;
  rows.slots_ = static_cast<std::uint32_t>(slots);
  check_numbers(rows);
  if (slots < kChunkRows || !rows.space().has_signs()) return;
  rows.signs_ = std::make_unique<SignPlane>(rows.space());
  rows.signs_->add_places((slots + kChunkRows - 1) / kChunkRows);
}

void RowTableSnapshot::restore_flags(const SnapshotReader& reader, RowTable& rows) {
  const std::size_t slots = rows.slots();
  const auto flags = reader.array<std::uint8_t>(Section::kFlags, slots);
  const bool expire = reader.has(Section::kExpiries);
  for (std::size_t i = slots; i-- > 0;) {  // the smallest free slot is taken first
    const auto slot = static_cast<Slot>(i);
    const unsigned flag = checked_flags(flags[i], rows);
    if ((flag & kFlagLive) == 0) {
      rows.release(slot);
      continue;
    }
    rows.publish(slot);
    if ((flag & kFlagVector) != 0) {
      rows.put(RowLayout::kFlags, slot,
               static_cast<std::uint8_t>(RowTable::kLive | RowTable::kVector));
      ++rows.vectors_;
    }
    if (expire)
      rows.set_expiry(slot, reader.array<Micros>(Section::kExpiries, slots)[i]);
  }
}

// Numbers that no encoder makes would make comparisons lie.
void RowTableSnapshot::check_numbers(RowTable& rows) {
  if (rows.space().dim() == 0) return;
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    const float factor = rows.factor(slot);
    const float step = rows.step(slot);
    if (!is_of_norm_1(factor) || !is_of_norm_1(step)) {
      refuse_snapshot("a row's scale is that of no vector");
    }
    if (rows.has_vector(slot))
      rows.largest_factor_ = std::max(rows.largest_factor_, factor);
    if (rows.column_chunks_ > 0 || !rows.space().keeps_float32() ||
        !rows.has_vector(slot)) {
      continue;
    }
    const float* floats = rows.floats(slot);
    if (!std::all_of(floats, floats + rows.space().dim(), is_of_norm_1)) {
      refuse_snapshot("a vector has a value that is none of norm 1");
    }
  }
}

}  // namespace vecall

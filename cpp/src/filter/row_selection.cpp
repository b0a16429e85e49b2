#include "filter/row_selection.hpp"

#include <algorithm>
#include <string>

#include "vecall/errors.hpp"
#include "vecall/index.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace vecall {

namespace {

constexpr std::size_t kAhead = 8;  // lookups under way at once

// The filter with names as numbers; asks for as little as each row needs.
struct Test {
  const Filter& filter;
  const RowTable& rows;
  bool by_time;
  bool by_expiry;
  bool by_session;
  bool by_author;
  bool by_kind;
  std::uint32_t session = 0;
  std::uint32_t author = 0;
  std::uint32_t kind = 0;

  Test(const Filter& conditions, const RowTable& table, const Labels* labels)
      : filter(conditions),
        rows(table),
        by_time(conditions.after != kMinTime || conditions.before != kMaxTime),
        by_expiry(conditions.now != kMinTime && table.any_expires_by(conditions.now)),
        by_session(conditions.session.has_value()),
        by_author(conditions.author.has_value()),
        by_kind(conditions.kind.has_value()) {
    const auto number = [labels](const LabelDictionary Labels::* which,
                                 std::uint64_t hash) {
      if (labels != nullptr) return (labels->*which).find(hash);
      return hash == 0 ? LabelDictionary::kNone : LabelDictionary::kUnknown;
    };
    if (by_session) session = number(&Labels::sessions, *conditions.session);
    if (by_author) author = number(&Labels::authors, *conditions.author);
    if (by_kind) kind = number(&Labels::kinds, *conditions.kind);
  }

  [[nodiscard]] bool has_expired(Slot slot) const noexcept {
    const Micros expires = rows.expires(slot);
    return expires != kMaxTime && expires <= filter.now;
  }
  [[nodiscard]] bool passes(Slot slot) const noexcept {
    if (!rows.is_live(slot)) return false;
    if (by_session && rows.session(slot) != session) return false;
    if (by_author && rows.author(slot) != author) return false;
    if (by_kind && rows.kind(slot) != kind) return false;
    if (by_expiry && has_expired(slot)) return false;
    if (!by_time) return true;
    const Micros time = rows.time(slot);
    return filter.after <= time && (filter.before == kMaxTime || time < filter.before);
  }
};

#if defined(__SSE2__)
constexpr std::size_t kTogether = 16;
#else
constexpr std::size_t kTogether = 8;
#endif

// The bits of kTogether bytes: whether each is not 0, the first byte as the lowest bit.
std::uint64_t bits_of(const std::uint8_t* bytes) noexcept {
#if defined(__SSE2__)
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
  const int zeros = _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_setzero_si128()));
  return static_cast<std::uint64_t>(zeros ^ 0xffff);
#else
  std::uint64_t eight = 0;
  for (int i = 0; i < 8; ++i) eight |= std::uint64_t{bytes[i]} << (8 * i);
  constexpr std::uint64_t kLow = 0x7f7f'7f7f'7f7f'7f7f;
  eight = (((eight & kLow) + kLow) | eight) >> 7 & 0x0101'0101'0101'0101;
  return eight * 0x0102'0408'1020'4080 >> 56;
#endif
}

}  // namespace

void refuse_mask(std::size_t wanted) {
  throw InvalidArgumentError("only: a mask needs one bool for each of Index.ids, " +
                             std::to_string(wanted) + " of them");
}

void RowSelection::select(const Filter& filter, const RowTable& rows,
                          const Labels* labels,
                          const std::vector<Slot>& last_of_session, const IdMap& ids) {
  rows_ = &rows;
  const Test test(filter, rows, labels);
  selects_all_ = !(test.by_time || test.by_expiry || test.by_session ||
                   test.by_author || test.by_kind || filter.only || filter.mask ||
                   !filter.without.empty() || !filter.without_sessions.empty());
  count_ = rows.live();
  if (selects_all_) return;
  count_ = 0;
  bits_.assign((rows.slots() + 63) / 64, 0);
  if (filter.mask) {
    select_mask(*filter.mask);
  } else if (filter.only) {
    const std::span<const RowId> only = *filter.only;
    for (std::size_t i = 0; i < only.size(); ++i) {
      if (i + 2 * kAhead < only.size()) ids.prefetch(only[i + 2 * kAhead]);
      if (i + kAhead < only.size()) ids.prefetch_row(only[i + kAhead], rows);
      const Slot slot = ids.find(only[i], rows);
      if (slot != kNoSlot && test.passes(slot)) add(slot);
    }
  } else if (test.by_session && *filter.session != kNoSession) {
    if (test.session >= last_of_session.size()) return;
    Slot slot = last_of_session[test.session];
    for (; slot != kNoSlot; slot = rows.previous(slot)) {
      if (test.passes(slot)) add(slot);
    }
  } else {
    for (Slot slot = 0; slot < rows.slots(); ++slot) {
      if (test.passes(slot)) add(slot);
    }
  }
  leave_out(filter, rows, labels, last_of_session, ids);
}

void RowSelection::select_mask(std::span<const std::uint8_t> mask) {
  if (mask.size() != rows_->live()) refuse_mask(rows_->live());
  const std::uint8_t* next = mask.data();
  const auto slots = static_cast<Slot>(rows_->slots());
  const bool all_live = mask.size() == slots;
  for (std::size_t word = 0; word < bits_.size(); ++word) {
    const auto first = static_cast<Slot>(word * 64);
    const Slot end = std::min<Slot>(first + 64, slots);
    std::uint64_t bits = 0;
    if (all_live && end - first == 64) {
      for (std::size_t at = 0; at < 64; at += kTogether) {
        bits |= bits_of(next + at) << at;
      }
      next += 64;
    } else {
      for (Slot slot = first; slot < end; ++slot) {
        if (!rows_->is_live(slot)) continue;
        bits |= static_cast<std::uint64_t>(*next++ != 0) << (slot - first);
      }
    }
    bits_[word] = bits;
    count_ += static_cast<std::size_t>(std::popcount(bits));
  }
}

void RowSelection::leave_out(const Filter& filter, const RowTable& rows,
                             const Labels* labels,
                             const std::vector<Slot>& last_of_session,
                             const IdMap& ids) {
  for (const RowId id : filter.without) {
    const Slot slot = ids.find(id, rows);
    if (slot != kNoSlot) remove(slot);
  }
  if (labels == nullptr) return;
  for (const SessionKey session : filter.without_sessions) {
    const std::uint32_t number = labels->sessions.find(session);
    if (session == kNoSession || number >= last_of_session.size()) continue;
    Slot slot = last_of_session[number];
    for (; slot != kNoSlot; slot = rows.previous(slot)) remove(slot);
  }
}

}  // namespace vecall

#include "index/landmarks.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"

namespace vecall {

namespace {

std::uint64_t mixed(Slot slot) noexcept {
  std::uint64_t z = (slot + std::uint64_t{1}) * 0xD1B5'4A32'D192'ED03ULL;
  z = (z ^ (z >> 32)) * 0x9FB2'1C65'1E98'DF25ULL;
  return z ^ (z >> 29);
}

}  // namespace

bool Landmarks::wants(Slot slot) const noexcept {
  return mixed(slot) >> (64 - rarity_) == 0;
}

void Landmarks::reserve(const RowTable& rows, std::size_t more) {
  const std::size_t wanted = std::min(slots_.size() + more, kMost);
  if (wanted <= slots_.capacity()) return;
  const std::size_t room = std::min(std::max(wanted, 2 * slots_.size()), kMost);
  codes_.resize((room * rows.space().high_bytes() + sizeof(Line) - 1) / sizeof(Line));
  factors_.reserve(room);
  slots_.reserve(room);
}

void Landmarks::take(const RowTable& rows, std::vector<Slot> slots) {
  VECALL_ASSERT(slots_.empty());
  const auto is_out = [this](Slot slot) { return !wants(slot); };
  for (; slots.size() > kMost; ++rarity_, std::erase_if(slots, is_out)) {
  }
  reserve(rows, slots.size());
  for (const Slot slot : slots) add(rows, slot);
}

void Landmarks::add(const RowTable& rows, Slot slot) noexcept {
  if (!wants(slot)) return;
  const auto known = std::find(slots_.begin(), slots_.end(), slot);
  if (known != slots_.end()) {
    put(rows, slot, static_cast<std::size_t>(known - slots_.begin()));
    return;
  }
  while (slots_.size() == kMost) thin_out(rows.space().high_bytes());
  if (!wants(slot)) return;
  VECALL_ASSERT(slots_.size() < slots_.capacity());
  slots_.push_back(slot);
  factors_.push_back(0.0F);
  put(rows, slot, slots_.size() - 1);
}

void Landmarks::put(const RowTable& rows, Slot slot, std::size_t at) noexcept {
  const std::size_t bytes = rows.space().high_bytes();
  std::memcpy(codes() + at * bytes, rows.high(slot), bytes);
  factors_[at] = rows.factor(slot);
}

// Keeps about every second of them.
void Landmarks::thin_out(std::size_t row_bytes) noexcept {
  ++rarity_;
  std::size_t size = 0;
  for (std::size_t at = 0; at < slots_.size(); ++at) {
    if (!wants(slots_[at])) continue;
    slots_[size] = slots_[at];
    factors_[size] = factors_[at];
    std::memmove(codes() + size * row_bytes, codes() + at * row_bytes, row_bytes);
    ++size;
  }
  slots_.resize(size);
  factors_.resize(size);
}

void Landmarks::scan(const EncodedQuery& query, float* out) const noexcept {
  kernels::active().scan(query.code(),
                         reinterpret_cast<const std::uint8_t*>(codes_.data()),
                         factors_.data(), slots_.size(), out);
}

}  // namespace vecall

#include "vectors/encoded_rows.hpp"

#include <algorithm>
#include <vector>

#include "vecall/normalise.hpp"

namespace vecall {

namespace {

// Grown, never freed: an addition of few rows allocates their codes alone.
struct Scratch {
  std::vector<float> unit;
  RowEncoder encoder;
};

}  // namespace

EncodedRows::EncodedRows(const VectorSpace& space, std::span<const float> matrix,
                         std::span<const std::uint8_t> wanted)
    : space_(&space),
      row_bytes_(space.high_bytes() + space.low_bytes() + space.rest_bytes() +
                 space.float_bytes() + 2 * sizeof(float)) {
  if (wanted.empty()) return;
  // Not filled with zeros: each byte is written below or never read.
  bytes_.reset(new std::byte[wanted.size() * row_bytes_]);
  const std::size_t dim = space.dim();
  thread_local Scratch of_thread;
  Scratch& scratch = of_thread;  // found once: the way to it is a call
  scratch.unit.resize(dim);
  scratch.encoder.prepare(space);
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row] == 0) continue;
    const auto given = matrix.subspan(row * dim, dim);
    std::copy(given.begin(), given.end(), scratch.unit.begin());
    check_fault(normalise(scratch.unit, scratch.unit));
    const RowCodes to = codes(row);
    if (to.floats != nullptr) {
      std::fill_n(to.floats, space.float_bytes() / sizeof(float), 0.0F);
    }
    scratch.encoder.encode(space, scratch.unit, to);
  }
}

RowCodes EncodedRows::codes(std::size_t row) const noexcept {
  std::byte* at = bytes_.get() + row * row_bytes_;
  const auto take = [&at](std::size_t bytes) {
    std::byte* const taken = bytes == 0 ? nullptr : at;
    at += bytes;
    return taken;
  };
  RowCodes codes{};
  codes.high = reinterpret_cast<std::uint8_t*>(take(space_->high_bytes()));
  codes.low = reinterpret_cast<std::uint8_t*>(take(space_->low_bytes()));
  codes.rest = reinterpret_cast<std::uint8_t*>(take(space_->rest_bytes()));
  codes.floats = reinterpret_cast<float*>(take(space_->float_bytes()));
  codes.factor = reinterpret_cast<float*>(take(sizeof(float)));
  codes.step = reinterpret_cast<float*>(take(sizeof(float)));
  return codes;
}

}  // namespace vecall

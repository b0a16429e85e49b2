// Plain C++: the reference that runs everywhere.

#include "kernels/cpu.hpp"
#include "kernels/encoder_body.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products_body.hpp"
#include "kernels/query_body.hpp"
#include "kernels/rotation_body.hpp"
#include "kernels/row_by_row.hpp"
#include "kernels/scan_rows.hpp"
#include "kernels/signs_body.hpp"
#include "vecall/assert.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kLanes = 8;

// Eight independent sums, so that the compiler may use the baseline's own vector
// registers without changing the result.
float dot(const float* a, const float* b, std::size_t dim) noexcept {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (std::size_t lane = 0; i < dim; ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
         ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

std::int32_t nibble_sum(const std::uint8_t* row, const std::int8_t* q8,
                        std::size_t width) noexcept {
  std::int32_t sum = 0;
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, width);
    const std::uint8_t* bytes = row + at / 2;
    for (std::size_t j = 0; j < half; ++j) {
      sum += (bytes[j] & 15) * q8[at + j];
      sum += (bytes[j] >> 4) * q8[at + half + j];
    }
  }
  return sum;
}

struct Estimates {
  template <class RowAt>
  static void of(const CodeQuery& query, RowAt row_at, const float* factors,
                 std::size_t count, float* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      out[i] =
          estimate(query, nibble_sum(row_at(i), query.q8, query.width), factors[i]);
    }
  }
};

// REQUIRES: value < 2^12; then 32 bits hold it.
constexpr std::int32_t product(std::int32_t value, std::int16_t q) noexcept {
  VECALL_ASSERT(value < 1 << 12);
  return value * q;
}

std::int64_t sum_high(const std::uint8_t* high, const std::uint8_t* low,
                      const std::int16_t* q, std::size_t width) noexcept {
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, width);
    const std::uint8_t* bytes = high + at / 2;
    for (std::size_t j = 0; j < half; ++j) {
      sum += product((bytes[j] & 15) * 256 + low[at + j], q[at + j]);
      sum += product((bytes[j] >> 4) * 256 + low[at + half + j], q[at + half + j]);
    }
  }
  return sum;
}

std::int64_t sum_nibbles(const std::uint8_t* nibbles, const std::int16_t* q,
                         std::size_t width) noexcept {
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, width);
    const std::uint8_t* bytes = nibbles + at / 2;
    for (std::size_t j = 0; j < half; ++j) {
      sum += product(bytes[j] & 15, q[at + j]);
      sum += product(bytes[j] >> 4, q[at + half + j]);
    }
  }
  return sum;
}

std::size_t at_least(const float* values, std::size_t count, float threshold,
                     std::uint32_t* positions) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    positions[found] = static_cast<std::uint32_t>(i);
    found += values[i] >= threshold ? 1 : 0;
  }
  return found;
}

struct Crc32cTable {
  std::uint32_t of_byte[256] = {};

  constexpr Crc32cTable() {
    constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
      }
      of_byte[byte] = crc;
    }
  }
};

constexpr Crc32cTable kCrc32c;

std::uint32_t crc32c(std::uint32_t crc, const std::uint8_t* bytes,
                     std::size_t count) noexcept {
  crc = ~crc;
  for (std::size_t i = 0; i < count; ++i) {
    crc = (crc >> 8) ^ kCrc32c.of_byte[(crc ^ bytes[i]) & 255];
  }
  return ~crc;
}

struct GroupSums {
  template <std::size_t>
  static void of(const SignQuery* query, const std::uint8_t* group, std::uint16_t* sums,
                 std::size_t /*unused*/) noexcept {
    for (std::size_t row = 0; row < kSignGroup; ++row) sums[row] = 0;
    const std::uint8_t* table = query->tables;
    for (std::size_t at = 0; at < query->width; at += 8) {
      for (std::size_t row = 0; row < kSignGroup; ++row) {
        sums[row] += table[group[row] & 15];
        sums[row] += table[16 + (group[row] >> 4)];
      }
      table += 32;
      group += kSignGroup;
    }
  }
};

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  for (std::size_t row = 0; row < rows.count; ++row) {
    const std::int16_t* const values = rows.values + rows.starts[row];
    const std::int8_t* bytes = matrix.bytes;
    for (std::size_t column = 0; column < matrix.columns; column += kGroupColumns) {
      std::int32_t sums[kGroupColumns] = {};
      for (std::size_t k = 0; k < matrix.depth; k += 4) {
        for (std::size_t i = 0; i < kGroupColumns; ++i) {
          for (std::size_t j = 0; j < 4; ++j)
            sums[i] += bytes[4 * i + j] * values[k + j];
        }
        bytes += 4 * kGroupColumns;
      }
      for (std::size_t i = 0; i < kGroupColumns; ++i) {
        const float scale = rows.factors[row] * matrix.steps[column + i];
        *out++ = static_cast<float>(sums[i]) * scale;
      }
    }
  }
}

}  // namespace

extern const KernelTable kScalarTable;
const KernelTable kScalarTable = {
    .name = "scalar",
    .needs = kCpuBaseline,
    .dot = dot,
    .squares = squares,
    .scale = scale,
    .quantise = quantise,
    .centre = centre,
    .scan = scan<Estimates>,
    .gather = gather<Estimates>,
    .sign_sums = sign_sums<GroupSums, 1>,
    .sums_reaching = sums_reaching<at_least>,
    .sum_high = sum_high,
    .sum_high_rows = row_by_row<sum_high>,
    .sum_nibbles = sum_nibbles,
    .sum_int16_rows = sum_int16_rows,
    .rotate = rotate,
    .reaching = reaching,
    .at_least = at_least,
    .crc32c = crc32c,
    .multiply = multiply,
    .encoder = &kEncoderSteps,
};

}  // namespace vecall::kernels

#pragma once

// One instruction set's kernels. Contract for every slot: inputs need no alignment,
// nothing outside of them is read, nothing is allocated or thrown. A tier leaves null
// the slots that it does not improve; they are inherited from the next runnable tier.
//
// Everything that touches codes is integer arithmetic, or float arithmetic in a fixed
// order without fused operations, so that every tier gives the same bits. `dot` alone
// differs in the last ones: it is within dim * 2^-24 * sum(|a_i * b_i|) of the exact
// product.
//
// Nibble planes hold `width` 4-bit values, a multiple of 64, two in a byte: each block
// of 128 values is 64 bytes with byte j = value[j] | value[64 + j] << 4, and a last
// block of 64 is 32 bytes with byte j = value[j] | value[32 + j] << 4.
//
// Planes of signs hold one bit a value, set where the top bit of its nibble is, in
// groups of 64 rows. Byte 64 * c + r of a group has, of row r, the values whose nibbles
// lie in bytes 4 * c to 4 * c + 3 of its nibble plane: bits 0 to 3 are those of the low
// nibbles, bits 4 to 7 those of the high ones.

#include <cstddef>
#include <cstdint>

namespace vecall::kernels {

inline constexpr std::size_t kPlaneBlock = 128;  // values of a whole block of a plane
inline constexpr std::size_t kSignGroup = 64;    // rows of a group of signs

// How many values of the block at `at` stand in low nibbles; as many stand in high
// ones.
constexpr std::size_t half_block(std::size_t at, std::size_t width) noexcept {
  return (width - at >= kPlaneBlock ? kPlaneBlock : width - at) / 2;
}

// Values of a row of codes for vectors of `dim` values: a multiple of 64, padded.
constexpr std::size_t width_of(std::size_t dim) noexcept {
  constexpr std::size_t kStep = 64;
  return (dim + kStep - 1) / kStep * kStep;
}

// A query against nibble planes. The estimate of a row is
//   factor * (scale * float(2 * sum(nibble_i * q8_i) - bias))
// in exactly this order.
struct CodeQuery {
  const std::int8_t* q8 = nullptr;  // (width,), zero where the row is padding
  std::size_t width = 0;            // a multiple of 64, up to 65,536
  std::int32_t bias = 0;            // 15 * sum(q8): nibbles stand for -7.5 to 7.5
  float scale = 0;                  // half a step of q8
};

// A query against planes of signs, by the sums of what it adds for each four bits. The
// reach of a row is
//   factor * (scale * float(2 * sum - bias) + plus)
// in exactly this order.
struct SignQuery {
  // (width / 4, 16): two tables for each byte of a row, of its low and its high bits.
  // No four entries of tables that follow each other add up to more than 255.
  const std::uint8_t* tables = nullptr;
  std::size_t width = 0;  // a multiple of 64, up to 4,096: sums are below 2^16
  std::int32_t bias = 0;
  float scale = 0;
};

// A rotated query x as integers: q8 = round(x * 127 / largest), q16 likewise by 32,512.
struct QuantisedQuery {
  float largest;  // magnitude, at least 1e-30
  std::int32_t sum8;
  std::int64_t sum16;
  double along8;   // sum(x_i * q8_i), summed in double, in one order by all tiers
  double along16;  // sum(x_i * q16_i), likewise
};

// A matrix of signed bytes (depth, columns), groups of 32 columns one after another. A
// group holds, for each four rows, the four bytes of each of its columns in turn.
struct ByteMatrix {
  const std::int8_t* bytes = nullptr;
  const std::int32_t* column_sums = nullptr;  // (columns,), of all rows
  const float* steps = nullptr;               // (columns,), what 1 stands for
  std::size_t depth = 0;                      // a multiple of 4, up to kMaxDepth
  std::size_t columns = 0;                    // a multiple of kGroupColumns
};

inline constexpr std::size_t kGroupColumns = 32;
inline constexpr std::size_t kMaxDepth = 2048;     // so that sums of 32 bits fit
inline constexpr std::int16_t kMostValue = 4'095;  // of a row that such a matrix takes

// Rows of 16-bit integers in one array, which may overlap.
struct ValueRows {
  const std::int16_t* values = nullptr;
  const std::uint32_t* starts = nullptr;  // where each row begins, ascending
  const float* factors = nullptr;         // of each row
  std::size_t count = 0;
  bool are_bytes = false;  // whether all values are from 0 to 127
};

// The steps of the encoder between two matrices. In a fixed order, so that every tier
// gives the same bits. `count` is a multiple of 16; what is written may be what is
// read.
struct EncoderSteps {
  // byte_i * step + least.
  void (*unpack)(const std::uint8_t* bytes, std::size_t count, float step, float least,
                 float* out) noexcept = nullptr;
  // (x_i - mean) / deviation * gain_i + bias_i (Ba et al., "Layer Normalization",
  // 2016); epsilon is added to the variance.
  void (*normalise)(float* x, std::size_t count, const float* gain, const float* bias,
                    float epsilon) noexcept = nullptr;
  // Adds (x_i - mean) / deviation to sums_i.
  void (*add_normalised)(const float* x, std::size_t count, float epsilon,
                         float* sums) noexcept = nullptr;
  // max(x_i + bias_i, 0) + base_i.
  void (*rectify)(const float* x, const float* bias, const float* base,
                  std::size_t count, float* out) noexcept = nullptr;
  void (*add)(const float* x, std::size_t count, float* sums) noexcept = nullptr;
  void (*tanh)(float* x, std::size_t count) noexcept = nullptr;
  // The largest magnitude.
  float (*largest)(const float* x, std::size_t count) noexcept = nullptr;
  // x_i * factor, rounded to the nearest. REQUIRES: |x_i * factor| <= kMostValue.
  void (*round)(const float* x, std::size_t count, float factor,
                std::int16_t* out) noexcept = nullptr;
};

// A slot that is null is filled from the next tier that the processor can run.
struct KernelTable {
  const char* name = nullptr;
  std::uint32_t needs = 0;  // CpuFeature bits
  float (*dot)(const float* a, const float* b, std::size_t dim) noexcept = nullptr;
  // sum(x_i * x_i) in double.
  double (*squares)(const float* x, std::size_t count) noexcept = nullptr;
  // x_i * factor, multiplied in double, into `out`, which may be x.
  void (*scale)(const float* x, std::size_t count, double factor,
                float* out) noexcept = nullptr;
  // Fills q8 (width,) and q16 (width,); `width` is a multiple of 64, up to 65,536.
  QuantisedQuery (*quantise)(const float* x, std::size_t width, std::int8_t* q8,
                             std::int16_t* q16) noexcept = nullptr;
  // A nibble plane as a query: q8_i = 16 * nibble_i - 120. Returns the sum of q8.
  std::int32_t (*centre)(const std::uint8_t* nibbles, std::size_t width,
                         std::int8_t* q8) noexcept = nullptr;
  // Estimates of `count` rows that lie one after another, width / 2 bytes each, with
  // one factor a row.
  void (*scan)(const CodeQuery& query, const std::uint8_t* rows, const float* factors,
               std::size_t count, float* out) noexcept = nullptr;
  // The same for rows anywhere.
  void (*gather)(const CodeQuery& query, const std::uint8_t* const* rows,
                 const float* factors, std::size_t count,
                 float* out) noexcept = nullptr;
  // Sums of the rows of `groups` groups by `count` queries of one width: the rows of
  // the first query, then those of the next.
  void (*sign_sums)(const SignQuery* queries, std::size_t count,
                    const std::uint8_t* signs, std::size_t groups,
                    std::uint16_t* sums) noexcept = nullptr;
  // Writes the positions of the rows whose reach is >= least, ascending, and these
  // reaches, and returns how many. Both have room for `count`. REQUIRES: whole groups.
  std::size_t (*sums_reaching)(const SignQuery& query, const std::uint16_t* sums,
                               const float* factors, std::size_t count, float plus,
                               float least, std::uint32_t* positions,
                               float* reaches) noexcept = nullptr;
  // sum((high_i * 256 + low_i) * q_i) of a nibble plane and a plane of `width` bytes.
  // REQUIRES: |q_i| <= 32,512.
  std::int64_t (*sum_high)(const std::uint8_t* high, const std::uint8_t* low,
                           const std::int16_t* q, std::size_t width) noexcept = nullptr;
  // The same for `count` rows of each plane that lie one after another; doubles hold
  // such sums without error.
  void (*sum_high_rows)(const std::uint8_t* high, const std::uint8_t* low,
                        const std::int16_t* q, std::size_t width, std::size_t count,
                        double* out) noexcept = nullptr;
  // sum(nibble_i * q_i). REQUIRES: |q_i| <= 32,512.
  std::int64_t (*sum_nibbles)(const std::uint8_t* nibbles, const std::int16_t* q,
                              std::size_t width) noexcept = nullptr;
  // sum(row_i * q_i) of `count` rows of `width` values that lie one after another;
  // `width` is a multiple of 64, up to 65,536, and doubles hold such sums without
  // error. REQUIRES: |row_i| <= 2,047 and |q_i| <= 4,095.
  void (*sum_int16_rows)(const std::int16_t* rows, const std::int16_t* q,
                         std::size_t width, std::size_t count,
                         double* out) noexcept = nullptr;
  // Rotates x (dim,) in place; `signs` is what vectors/rotation.hpp makes for dim.
  void (*rotate)(float* x, std::size_t dim, const float* signs) noexcept = nullptr;
  // How many of the values are >= threshold; count < 2^31.
  std::size_t (*reaching)(const float* values, std::size_t count,
                          float threshold) noexcept = nullptr;
  // Writes the positions of the values >= threshold, ascending, and returns how many.
  // `positions` has room for `count`.
  std::size_t (*at_least)(const float* values, std::size_t count, float threshold,
                          std::uint32_t* positions) noexcept = nullptr;
  // CRC-32C (Castagnoli) of bytes that follow bytes whose CRC was `crc`; 0 to begin.
  std::uint32_t (*crc32c)(std::uint32_t crc, const std::uint8_t* bytes,
                          std::size_t count) noexcept = nullptr;
  // The product of each row, (count, columns):
  //   float(sum(value_k * byte_k)) * (factor * step)
  // REQUIRES: |value_k| <= kMostValue.
  void (*multiply)(const ByteMatrix& matrix, const ValueRows& rows,
                   float* out) noexcept = nullptr;
  const EncoderSteps* encoder = nullptr;
};

}  // namespace vecall::kernels

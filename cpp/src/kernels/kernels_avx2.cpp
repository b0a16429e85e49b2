// AVX2 with FMA. Nibbles are multiplied by VPMADDUBSW: two products of at most 15 * 127
// make 3,810, and eight such sums still fit into 16 bits.

#include <immintrin.h>

#include "kernels/cpu.hpp"
#include "kernels/encoder_body.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products_body.hpp"
#include "kernels/query_body.hpp"
#include "kernels/rotation_body.hpp"
#include "kernels/row_by_row.hpp"
#include "kernels/scan_rows.hpp"
#include "kernels/signs_body.hpp"

namespace vecall::kernels {

namespace {

constexpr std::size_t kWidth = 8;
constexpr std::size_t kBlock = 4 * kWidth;

float sum_of(__m256 x) noexcept {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  half = _mm_add_ss(half, _mm_movehdup_ps(half));
  return _mm_cvtss_f32(half);
}

// Four accumulators of eight floats: an FMA takes four cycles and two start in each, so
// fewer in flight leave a unit idle.
float dot(const float* a, const float* b, std::size_t dim) noexcept {
  __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                    _mm256_setzero_ps()};
  std::size_t i = 0;
  for (; i + kBlock <= dim; i += kBlock) {
    for (std::size_t part = 0; part < 4; ++part) {
      sums[part] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i + kWidth * part),
                                   _mm256_loadu_ps(b + i + kWidth * part), sums[part]);
    }
  }
  for (; i + kWidth <= dim; i += kWidth) {
    sums[0] = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), sums[0]);
  }
  float sum = sum_of(
      _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
  for (; i < dim; ++i) sum += a[i] * b[i];
  return sum;
}

__m256i load(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

// Sums of one row.
struct RowSum {
  __m256i part = _mm256_setzero_si256();  // of 16 bits
  __m256i whole = _mm256_setzero_si256();

  // 32 bytes of codes against the query under their low and their high nibbles: at most
  // 7,680 more in each 16-bit sum, which has room for four calls.
  void add(const std::uint8_t* codes, __m256i q_low, __m256i q_high) noexcept {
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i bytes = load(codes);
    const __m256i low = _mm256_and_si256(bytes, mask);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
    part = _mm256_add_epi16(part, _mm256_add_epi16(_mm256_maddubs_epi16(low, q_low),
                                                   _mm256_maddubs_epi16(high, q_high)));
  }
  void widen() noexcept {
    whole = _mm256_add_epi32(whole, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
    part = _mm256_setzero_si256();
  }
};

// One block: kHalf values in low nibbles and as many in high ones.
template <std::size_t kRows, std::size_t kHalf>
[[gnu::always_inline]] inline void add_block(const std::int8_t* q8,
                                             const std::uint8_t* const* rows,
                                             std::size_t at, RowSum* sums) noexcept {
  for (std::size_t j = 0; j < kHalf; j += 32) {
    const __m256i q_low = load(q8 + at + j);
    const __m256i q_high = load(q8 + at + kHalf + j);
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row].add(rows[row] + at / 2 + j, q_low, q_high);
    }
  }
}

// Rows that share each load of the query.
template <std::size_t kRows>
[[gnu::always_inline]] inline void add_rows(const CodeQuery& query,
                                            const std::uint8_t* const* rows,
                                            RowSum* sums) noexcept {
  const auto widen = [sums] {
    for (std::size_t row = 0; row < kRows; ++row) sums[row].widen();
  };
  std::size_t at = 0;
  for (; at + 2 * kPlaneBlock <= query.width; at += 2 * kPlaneBlock) {
    add_block<kRows, 64>(query.q8, rows, at, sums);
    add_block<kRows, 64>(query.q8, rows, at + kPlaneBlock, sums);
    widen();
  }
  if (at == query.width) return;
  if (at + kPlaneBlock <= query.width) {
    add_block<kRows, 64>(query.q8, rows, at, sums);
    at += kPlaneBlock;
  }
  if (at < query.width) add_block<kRows, 32>(query.q8, rows, at, sums);
  widen();
}

// The sums of four registers, one in each element.
__m128i sum_each(__m256i a, __m256i b, __m256i c, __m256i d) noexcept {
  const __m256i all =
      _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

__m128 estimates(const CodeQuery& query, __m128i sums, __m128 factors) noexcept {
  const __m128i centred =
      _mm_sub_epi32(_mm_slli_epi32(sums, 1), _mm_set1_epi32(query.bias));
  const __m128 scaled = _mm_mul_ps(_mm_set1_ps(query.scale), _mm_cvtepi32_ps(centred));
  return _mm_mul_ps(factors, scaled);
}

struct Estimates {
  template <class RowAt>
  static void of(const CodeQuery& query, RowAt row_at, const float* factors,
                 std::size_t count, float* out) noexcept {
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const std::uint8_t* rows[4] = {row_at(i), row_at(i + 1), row_at(i + 2),
                                     row_at(i + 3)};
      RowSum sums[4];
      add_rows<4>(query, rows, sums);
      const __m128i sum =
          sum_each(sums[0].whole, sums[1].whole, sums[2].whole, sums[3].whole);
      _mm_storeu_ps(out + i, estimates(query, sum, _mm_loadu_ps(factors + i)));
    }
    for (; i < count; ++i) {
      const std::uint8_t* row = row_at(i);
      RowSum sum;
      add_rows<1>(query, &row, &sum);
      const __m256i zero = _mm256_setzero_si256();
      const __m128i total = sum_each(sum.whole, zero, zero, zero);
      _mm_store_ss(out + i, estimates(query, total, _mm_load_ss(factors + i)));
    }
  }
};

// Elements of 32 bits as sums of 64, one of each half in an element.
__m256i halves(__m256i x) noexcept {
  return _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(x)),
                          _mm256_cvtepi32_epi64(_mm256_extracti128_si256(x, 1)));
}

std::int64_t sum_of_int64(__m256i x) noexcept {
  const __m128i half =
      _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  return _mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1);
}

// 16 bytes as 16 values of 16 bits.
__m256i widen(const std::uint8_t* bytes) noexcept {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// 16 values below 2^12 with their query; `high` is already shifted to bits 8 to 11. An
// element takes 16 products before it can overflow: two of each call.
__m256i add_products(__m256i sum, __m256i high, const std::uint8_t* low,
                     const std::int16_t* q) noexcept {
  return _mm256_add_epi32(
      sum, _mm256_madd_epi16(_mm256_or_si256(high, widen(low)), load(q)));
}

std::int64_t sum_high(const std::uint8_t* high, const std::uint8_t* low,
                      const std::int16_t* q, std::size_t width) noexcept {
  const __m256i low_nibble = _mm256_set1_epi16(0x0F);
  const __m256i high_nibble = _mm256_set1_epi16(0xF0);
  __m256i total = _mm256_setzero_si256();
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    // Bytes of this block: a low nibble belongs to value j, a high one to half + j.
    const std::size_t half = half_block(at, width);
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (std::size_t j = 0; j < half; j += 16) {
      const __m256i bytes = widen(high + at / 2 + j);
      const __m256i lows = _mm256_slli_epi16(_mm256_and_si256(bytes, low_nibble), 8);
      const __m256i highs = _mm256_slli_epi16(_mm256_and_si256(bytes, high_nibble), 4);
      sums[0] = add_products(sums[0], lows, low + at + j, q + at + j);
      sums[1] = add_products(sums[1], highs, low + at + half + j, q + at + half + j);
    }
    // 16 products of each element together.
    total = _mm256_add_epi64(total, halves(_mm256_add_epi32(sums[0], sums[1])));
  }
  return sum_of_int64(total);
}

std::int64_t sum_nibbles(const std::uint8_t* nibbles, const std::int16_t* q,
                         std::size_t width) noexcept {
  const __m256i low_nibble = _mm256_set1_epi16(0x0F);
  __m256i total = _mm256_setzero_si256();
  for (std::size_t at = 0; at < width; at += kPlaneBlock) {
    const std::size_t half = half_block(at, width);
    __m256i sum = _mm256_setzero_si256();
    for (std::size_t j = 0; j < half; j += 16) {
      const __m256i bytes = widen(nibbles + at / 2 + j);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_and_si256(bytes, low_nibble),
                                                    load(q + at + j)));
      sum = _mm256_add_epi32(
          sum, _mm256_madd_epi16(_mm256_srli_epi16(bytes, 4), load(q + at + half + j)));
    }
    total = _mm256_add_epi64(total, halves(sum));
  }
  return sum_of_int64(total);
}

// Four rows at once: one load of the query for all, and one sum across the lanes. In
// 512 columns an element takes 64 products, so after two horizontal sums 256, which
// fit.
void sum_four_rows(const std::int16_t* rows, const std::int16_t* q, std::size_t width,
                   double* out) noexcept {
  constexpr std::size_t kColumns = 512;
  __m256d totals = _mm256_setzero_pd();
  for (std::size_t begin = 0; begin < width; begin += kColumns) {
    const std::size_t end = width - begin < kColumns ? width : begin + kColumns;
    __m256i sums[4] = {};
    for (std::size_t at = begin; at < end; at += 16) {
      const __m256i query = load(q + at);
      for (std::size_t row = 0; row < 4; ++row) {
        sums[row] = _mm256_add_epi32(
            sums[row], _mm256_madd_epi16(load(rows + row * width + at), query));
      }
    }
    const __m256i halves_of_rows = _mm256_hadd_epi32(
        _mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    totals = _mm256_add_pd(
        totals,
        _mm256_add_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(halves_of_rows)),
                      _mm256_cvtepi32_pd(_mm256_extracti128_si256(halves_of_rows, 1))));
  }
  _mm256_storeu_pd(out, totals);
}

void sum_rows_by_four(const std::int16_t* rows, const std::int16_t* q,
                      std::size_t width, std::size_t count, double* out) noexcept {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) sum_four_rows(rows + i * width, q, width, out + i);
  sum_int16_rows(rows + i * width, q, width, count - i, out + i);
}

std::size_t at_least(const float* values, std::size_t count, float threshold,
                     std::uint32_t* positions) noexcept {
  const __m256 limit = _mm256_set1_ps(threshold);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    std::uint32_t mask = 0;
    for (std::size_t part = 0; part < 4; ++part) {
      const __m256 at = _mm256_loadu_ps(values + i + 8 * part);
      const int bits = _mm256_movemask_ps(_mm256_cmp_ps(at, limit, _CMP_GE_OQ));
      mask |= static_cast<std::uint32_t>(bits) << (8 * part);
    }
    while (mask != 0) {
      positions[found++] = static_cast<std::uint32_t>(i) +
                           static_cast<std::uint32_t>(__builtin_ctz(mask));
      mask &= mask - 1;
    }
  }
  for (; i < count; ++i) {
    if (values[i] >= threshold) positions[found++] = static_cast<std::uint32_t>(i);
  }
  return found;
}

// The products of kRows rows with 16 columns: VPMADDWD adds two products of each
// column, and the two sums of a column are added last.
template <std::size_t kRows>
void multiply_columns(const ByteMatrix& matrix, std::size_t column,
                      const std::int16_t* values, const std::uint32_t* starts,
                      const float* factors, float* out) noexcept {
  const std::int8_t* bytes = matrix.bytes +
                             column / kGroupColumns * kGroupColumns * matrix.depth +
                             4 * (column % kGroupColumns);
  const std::int16_t* row[kRows];
  for (std::size_t i = 0; i < kRows; ++i) row[i] = values + starts[i];
  __m256i sums[kRows][4] = {};
  for (std::size_t k = 0; k < matrix.depth; k += 4) {
    __m256i four[kRows];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRows; ++i) {
      std::int64_t numbers = 0;
      std::memcpy(&numbers, row[i] + k, sizeof(numbers));
      four[i] = _mm256_set1_epi64x(numbers);
    }
#pragma GCC unroll 4
    for (std::size_t part = 0; part < 4; ++part) {
      const __m256i wide = _mm256_cvtepi8_epi16(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * part)));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kRows; ++i) {
        sums[i][part] =
            _mm256_add_epi32(sums[i][part], _mm256_madd_epi16(wide, four[i]));
      }
    }
    bytes += 4 * kGroupColumns;
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRows; ++i) {
    const __m256 factor = _mm256_set1_ps(factors[i]);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256i pairs = _mm256_permute4x64_epi64(
          _mm256_hadd_epi32(sums[i][2 * half], sums[i][2 * half + 1]), 0b11'01'10'00);
      const __m256 scale =
          _mm256_mul_ps(factor, _mm256_loadu_ps(matrix.steps + column + 8 * half));
      _mm256_storeu_ps(out + i * matrix.columns + column + 8 * half,
                       _mm256_mul_ps(_mm256_cvtepi32_ps(pairs), scale));
    }
  }
}

void multiply(const ByteMatrix& matrix, const ValueRows& rows, float* out) noexcept {
  for (std::size_t column = 0; column < matrix.columns; column += kGroupColumns / 2) {
    std::size_t row = 0;
    for (; row + 3 <= rows.count; row += 3) {
      multiply_columns<3>(matrix, column, rows.values, rows.starts + row,
                          rows.factors + row, out + row * matrix.columns);
    }
    for (; row < rows.count; ++row) {
      multiply_columns<1>(matrix, column, rows.values, rows.starts + row,
                          rows.factors + row, out + row * matrix.columns);
    }
  }
}

// SSE4.2 comes with AVX2.
std::uint32_t crc32c(std::uint32_t crc, const std::uint8_t* bytes,
                     std::size_t count) noexcept {
  std::uint64_t state = static_cast<std::uint32_t>(~crc);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  auto narrow = static_cast<std::uint32_t>(state);
  for (; i < count; ++i) narrow = _mm_crc32_u8(narrow, bytes[i]);
  return ~narrow;
}

// What 32 rows add for eight values.
__m256i entries(const std::uint8_t* table, const std::uint8_t* line) noexcept {
  const __m256i mask = _mm256_set1_epi8(15);
  const auto at = [table](std::size_t which) {
    const auto* from = reinterpret_cast<const __m128i*>(table) + which;
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(from));
  };
  const __m256i bits = load(line);
  const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bits, 4), mask);
  return _mm256_add_epi8(_mm256_shuffle_epi8(at(0), _mm256_and_si256(bits, mask)),
                         _mm256_shuffle_epi8(at(1), high));
}

struct GroupSums {
  template <std::size_t>
  static void of(const SignQuery* query, const std::uint8_t* group, std::uint16_t* sums,
                 std::size_t /*unused*/) noexcept {
    for (std::size_t row = 0; row < kSignGroup; row += 32) {
      __m256i both = _mm256_setzero_si256();  // of an even row and, 256 times, the next
      __m256i odd = _mm256_setzero_si256();
      const std::uint8_t* table = query->tables;
      const std::uint8_t* line = group + row;
      for (std::size_t at = 0; at < query->width; at += 16) {
        const __m256i part = _mm256_add_epi8(entries(table, line),
                                             entries(table + 32, line + kSignGroup));
        both = _mm256_add_epi16(both, part);
        odd = _mm256_add_epi16(odd, _mm256_srli_epi16(part, 8));
        table += 64;
        line += 2 * kSignGroup;
      }
      const __m256i even = _mm256_sub_epi16(both, _mm256_slli_epi16(odd, 8));
      const __m256i low = _mm256_unpacklo_epi16(even, odd);
      const __m256i high = _mm256_unpackhi_epi16(even, odd);
      auto* to = reinterpret_cast<__m256i*>(sums + row);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
    }
  }
};

}  // namespace

extern const KernelTable kAvx2Table;
const KernelTable kAvx2Table = {
    .name = "avx2",
    .needs = kCpuAvx2Fma,
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
    .sum_int16_rows = sum_rows_by_four,
    .rotate = rotate,
    .reaching = reaching,
    .at_least = at_least,
    .crc32c = crc32c,
    .multiply = multiply,
    .encoder = &kEncoderSteps,
};

}  // namespace vecall::kernels

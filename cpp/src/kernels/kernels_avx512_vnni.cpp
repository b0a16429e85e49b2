// AVX-512 with VNNI (Ice Lake, Zen 4 and later). One 64-byte line of a nibble plane is
// two ANDs and two VPDPBUSD: the high nibbles are multiplied where they stand, as 16
// times their value, and the sum is shifted once at the end.

#include <immintrin.h>

#include "kernels/avx512_bytes.hpp"
#include "kernels/avx512_split.hpp"
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

constexpr std::size_t kAnyWidth = 0;
constexpr std::size_t kFlushValues = 512;  // sums of 16-bit products fit until here

float dot(const float* a, const float* b, std::size_t dim) noexcept {
  __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                    _mm512_setzero_ps()};
  std::size_t i = 0;
  for (; i + 64 <= dim; i += 64) {
    for (std::size_t part = 0; part < 4; ++part) {
      sums[part] = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16 * part),
                                   _mm512_loadu_ps(b + i + 16 * part), sums[part]);
    }
  }
  for (std::size_t part = 0; i < dim; i += 16, ++part) {
    const std::size_t left = dim - i;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1U);
    sums[part] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, a + i),
                                 _mm512_maskz_loadu_ps(mask, b + i), sums[part]);
  }
  return _mm512_reduce_add_ps(
      _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

// Sums of one row.
struct RowSum {
  __m512i low = _mm512_setzero_si512();
  __m512i high = _mm512_setzero_si512();  // 16 times what it counts for

  void add_line(__m512i codes, __m512i q_low, __m512i q_high) noexcept {
    const __m512i mask = _mm512_set1_epi8(15);
    low = _mm512_dpbusd_epi32(low, _mm512_and_si512(codes, mask), q_low);
    high = _mm512_dpbusd_epi32(high, _mm512_andnot_si512(mask, codes), q_high);
  }
  void add_half_line(const std::uint8_t* codes, __m512i q) noexcept {
    low = _mm512_dpbusd_epi32(low, half_line(codes), q);
  }
  [[nodiscard]] __m512i total() const noexcept {
    return _mm512_add_epi32(low, _mm512_srai_epi32(high, 4));
  }
};

__m128 estimates(const CodeQuery& query, __m128i sums, __m128 factors) noexcept {
  const __m128i centred =
      _mm_sub_epi32(_mm_slli_epi32(sums, 1), _mm_set1_epi32(query.bias));
  const __m128 scaled = _mm_mul_ps(_mm_set1_ps(query.scale), _mm_cvtepi32_ps(centred));
  return _mm_mul_ps(factors, scaled);
}

// Rows that share each load of the query. Four of them keep eight multiplications in
// flight, which hides how long one takes. kWidth is the width, or kAnyWidth.
template <std::size_t kRows, std::size_t kWidth>
[[gnu::always_inline]] inline void add_rows(const CodeQuery& query,
                                            const std::uint8_t* const* rows,
                                            RowSum* sums) noexcept {
  const std::int8_t* q8 = query.q8;
  const std::size_t width = kWidth == kAnyWidth ? query.width : kWidth;
  std::size_t at = 0;
  for (; at + kPlaneBlock <= width; at += kPlaneBlock) {
    const __m512i q_low = _mm512_loadu_si512(q8 + at);
    const __m512i q_high = _mm512_loadu_si512(q8 + at + kLine);
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row].add_line(_mm512_loadu_si512(rows[row] + at / 2), q_low, q_high);
    }
  }
  if (at < width) {
    const __m512i q = _mm512_loadu_si512(q8 + at);
    for (std::size_t row = 0; row < kRows; ++row) {
      sums[row].add_half_line(rows[row] + at / 2, q);
    }
  }
}

// row_at(i) is where row i lies.
template <std::size_t kWidth, class RowAt>
void estimate_rows_of(const CodeQuery& query, RowAt row_at, const float* factors,
                      std::size_t count, float* out) noexcept {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const std::uint8_t* rows[4] = {row_at(i), row_at(i + 1), row_at(i + 2),
                                   row_at(i + 3)};
    RowSum sums[4];
    add_rows<4, kWidth>(query, rows, sums);
    const __m128i sum =
        sum_each(sums[0].total(), sums[1].total(), sums[2].total(), sums[3].total());
    _mm_storeu_ps(out + i, estimates(query, sum, _mm_loadu_ps(factors + i)));
  }
  for (; i < count; ++i) {
    const std::uint8_t* row = row_at(i);
    RowSum sum;
    add_rows<1, kWidth>(query, &row, &sum);
    const __m128i total = _mm_cvtsi32_si128(_mm512_reduce_add_epi32(sum.total()));
    _mm_store_ss(out + i, estimates(query, total, _mm_load_ss(factors + i)));
  }
}

// A loop over lines costs a fifth of the time of the shortest rows: widths of common
// embeddings get one without it.
struct Estimates {
  template <class RowAt>
  static void of(const CodeQuery& query, RowAt row_at, const float* factors,
                 std::size_t count, float* out) noexcept {
    switch (query.width) {
      case 128:
        return estimate_rows_of<128>(query, row_at, factors, count, out);
      case 256:
        return estimate_rows_of<256>(query, row_at, factors, count, out);
      case 384:
        return estimate_rows_of<384>(query, row_at, factors, count, out);
      case 512:
        return estimate_rows_of<512>(query, row_at, factors, count, out);
      case 768:
        return estimate_rows_of<768>(query, row_at, factors, count, out);
      case 1024:
        return estimate_rows_of<1024>(query, row_at, factors, count, out);
      case 1536:
        return estimate_rows_of<1536>(query, row_at, factors, count, out);
      default:
        return estimate_rows_of<kAnyWidth>(query, row_at, factors, count, out);
    }
  }
};

std::int64_t sum_of_int32(__m512i x) noexcept {
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(x));
  const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(x, 1));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

// 32 bytes as 32 values of 16 bits.
__m512i widen(const std::uint8_t* bytes) noexcept {
  return _mm512_cvtepu8_epi16(load32(bytes));
}

// 32 values with their query, where `high` is already shifted to bits 8 to 11. A value
// is below 2^12, so an element takes 16 products before it can overflow: two of each
// call.
__m512i add_products(__m512i sum, __m512i high, const std::uint8_t* low,
                     const std::int16_t* q) noexcept {
  return _mm512_dpwssd_epi32(sum, _mm512_or_si512(high, widen(low)),
                             _mm512_loadu_si512(q));
}

std::int64_t sum_high(const std::uint8_t* high, const std::uint8_t* low,
                      const std::int16_t* q, std::size_t width) noexcept {
  const __m512i low_nibble = _mm512_set1_epi16(0x0F);
  const __m512i high_nibble = _mm512_set1_epi16(0xF0);
  std::int64_t total = 0;
  for (std::size_t begin = 0; begin < width; begin += kFlushValues) {
    const std::size_t end = width - begin < kFlushValues ? width : begin + kFlushValues;
    __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    std::size_t at = begin;
    for (; at + kPlaneBlock <= end; at += kPlaneBlock) {
      for (std::size_t part = 0; part < 2; ++part) {
        const std::size_t i = at + 32 * part;
        const __m512i bytes = widen(high + at / 2 + 32 * part);
        const __m512i lows = _mm512_slli_epi16(_mm512_and_si512(bytes, low_nibble), 8);
        const __m512i highs =
            _mm512_slli_epi16(_mm512_and_si512(bytes, high_nibble), 4);
        sums[part] = add_products(sums[part], lows, low + i, q + i);
        sums[part] = add_products(sums[part], highs, low + i + 64, q + i + 64);
      }
    }
    if (at < end) {
      const __m512i bytes = widen(high + at / 2);
      const __m512i lows = _mm512_slli_epi16(_mm512_and_si512(bytes, low_nibble), 8);
      const __m512i highs = _mm512_slli_epi16(_mm512_and_si512(bytes, high_nibble), 4);
      sums[0] = add_products(sums[0], lows, low + at, q + at);
      sums[1] = add_products(sums[1], highs, low + at + 32, q + at + 32);
    }
    total += sum_of_int32(sums[0]) + sum_of_int32(sums[1]);
  }
  return total;
}

void sum_high_rows(const std::uint8_t* high, const std::uint8_t* low,
                   const std::int16_t* q, std::size_t width, std::size_t count,
                   double* out) noexcept {
  const std::size_t done = split_sums(high, low, q, width, count, out);
  row_by_row<sum_high>(high + done * (width / 2), low + done * width, q, width,
                       count - done, out + done);
}

std::int64_t sum_nibbles(const std::uint8_t* nibbles, const std::int16_t* q,
                         std::size_t width) noexcept {
  const __m512i low_nibble = _mm512_set1_epi16(0x0F);
  // A multiplication adds up to 2 * 15 * 32,512 to an element, and the widest row takes
  // 2,048 of them: that fits into 32 bits.
  __m512i sum = _mm512_setzero_si512();
  const auto add = [&](std::size_t at, std::size_t half, std::size_t j) {
    const __m512i bytes = widen(nibbles + at / 2 + j);
    sum = _mm512_dpwssd_epi32(sum, _mm512_and_si512(bytes, low_nibble),
                              _mm512_loadu_si512(q + at + j));
    sum = _mm512_dpwssd_epi32(sum, _mm512_srli_epi16(bytes, 4),
                              _mm512_loadu_si512(q + at + half + j));
  };
  std::size_t at = 0;
  for (; at + kPlaneBlock <= width; at += kPlaneBlock) {
    add(at, 64, 0);
    add(at, 64, 32);
  }
  if (at < width) add(at, 32, 0);
  return sum_of_int32(sum);
}

std::size_t at_least(const float* values, std::size_t count, float threshold,
                     std::uint32_t* positions) noexcept {
  const __m512 limit = _mm512_set1_ps(threshold);
  std::size_t found = 0;
  std::size_t i = 0;
  const __m512i steps =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto place_of = [&](std::size_t at) {
    return _mm512_add_epi32(steps, _mm512_set1_epi32(static_cast<int>(at)));
  };
  for (; i + 64 <= count; i += 64) {
    __mmask16 masks[4];
    for (std::size_t part = 0; part < 4; ++part) {
      masks[part] = _mm512_cmp_ps_mask(_mm512_loadu_ps(values + i + 16 * part), limit,
                                       _CMP_GE_OQ);
    }
    if ((masks[0] | masks[1] | masks[2] | masks[3]) == 0) continue;
    for (std::size_t part = 0; part < 4; ++part) {
      // Whole registers fit: no more was found than values were looked at.
      _mm512_storeu_si512(positions + found, _mm512_maskz_compress_epi32(
                                                 masks[part], place_of(i + 16 * part)));
      found += static_cast<std::size_t>(__builtin_popcount(masks[part]));
    }
  }
  for (; i < count; i += 16) {
    const std::size_t left = count - i;
    const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1U << left) - 1U);
    const __mmask16 mask = _mm512_mask_cmp_ps_mask(
        lanes, _mm512_maskz_loadu_ps(lanes, values + i), limit, _CMP_GE_OQ);
    _mm512_mask_compressstoreu_epi32(positions + found, mask, place_of(i));
    found += static_cast<std::size_t>(__builtin_popcount(mask));
  }
  return found;
}

// Of 16 rows.
__m512 reaches_of(const SignQuery& query, const std::uint16_t* sums,
                  const float* factors, __m512 plus) noexcept {
  const __m512i wide =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
  const __m512i centred =
      _mm512_sub_epi32(_mm512_slli_epi32(wide, 1), _mm512_set1_epi32(query.bias));
  const __m512 scaled =
      _mm512_mul_ps(_mm512_set1_ps(query.scale), _mm512_cvtepi32_ps(centred));
  return _mm512_mul_ps(_mm512_loadu_ps(factors), _mm512_add_ps(scaled, plus));
}

std::size_t sums_reaching(const SignQuery& query, const std::uint16_t* sums,
                          const float* factors, std::size_t count, float plus,
                          float least, std::uint32_t* positions,
                          float* reaches) noexcept {
  constexpr std::size_t kLanes = 16;
  constexpr std::size_t kParts = kSignGroup / kLanes;
  const __m512 limit = _mm512_set1_ps(least);
  const __m512 more = _mm512_set1_ps(plus);
  const __m512i steps =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kSignGroup) {
    __m512 reach[kParts];
    __mmask16 masks[kParts];
    unsigned any = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t at = i + kLanes * part;
      reach[part] = reaches_of(query, sums + at, factors + at, more);
      masks[part] = _mm512_cmp_ps_mask(reach[part], limit, _CMP_GE_OQ);
      any |= masks[part];
    }
    if (any == 0) continue;
    for (std::size_t part = 0; part < kParts; ++part) {
      // Whole registers fit: no more was found than rows were looked at.
      const __m512i places = _mm512_add_epi32(
          steps, _mm512_set1_epi32(static_cast<int>(i + kLanes * part)));
      _mm512_storeu_si512(positions + found,
                          _mm512_maskz_compress_epi32(masks[part], places));
      _mm512_storeu_ps(reaches + found,
                       _mm512_maskz_compress_ps(masks[part], reach[part]));
      found += static_cast<std::size_t>(__builtin_popcount(masks[part]));
    }
  }
  return found;
}

// The entries of a table for 64 rows.
__m512i entries(const std::uint8_t* table, __m512i places) noexcept {
  const __m128i once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(once), places);
}

struct GroupSums {
  static constexpr std::size_t kAhead = 96 * kSignGroup;  // bytes

  template <std::size_t kQueries>
  static void of(const SignQuery* queries, const std::uint8_t* group,
                 std::uint16_t* sums, std::size_t stride) noexcept {
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i both[kQueries];  // of an even row and, 256 times, the next
    __m512i odd[kQueries];
    for (std::size_t i = 0; i < kQueries; ++i) {
      both[i] = odd[i] = _mm512_setzero_si512();
    }
    const std::size_t bytes = queries->width * 4;  // of the tables
    for (std::size_t at = 0; at < bytes; at += 64) {
      __builtin_prefetch(group + kAhead);
      __builtin_prefetch(group + kAhead + kSignGroup);
      const __m512i bits[2] = {_mm512_loadu_si512(group),
                               _mm512_loadu_si512(group + kSignGroup)};
      group += 2 * kSignGroup;
      __m512i places[4];
      for (std::size_t line = 0; line < 2; ++line) {
        places[2 * line] = _mm512_and_si512(bits[line], mask);
        places[2 * line + 1] = _mm512_and_si512(_mm512_srli_epi16(bits[line], 4), mask);
      }
      for (std::size_t i = 0; i < kQueries; ++i) {
        const std::uint8_t* table = queries[i].tables + at;
        const __m512i part = _mm512_add_epi8(
            _mm512_add_epi8(entries(table, places[0]), entries(table + 16, places[1])),
            _mm512_add_epi8(entries(table + 32, places[2]),
                            entries(table + 48, places[3])));
        both[i] = _mm512_add_epi16(both[i], part);
        odd[i] = _mm512_add_epi16(odd[i], _mm512_srli_epi16(part, 8));
      }
    }
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    for (std::size_t i = 0; i < kQueries; ++i) {
      const __m512i even = _mm512_sub_epi16(both[i], _mm512_slli_epi16(odd[i], 8));
      const __m512i low = _mm512_unpacklo_epi16(even, odd[i]);
      const __m512i high = _mm512_unpackhi_epi16(even, odd[i]);
      std::uint16_t* to = sums + i * stride;
      _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
      _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi64(low, last, high));
    }
  }
};

}  // namespace

extern const KernelTable kAvx512VnniTable;
const KernelTable kAvx512VnniTable = {
    .name = "avx512_vnni",
    .needs = kCpuAvx512Vnni | kCpuAvx2Fma,
    .dot = dot,
    .squares = squares,
    .scale = scale,
    .quantise = quantise,
    .centre = centre,
    .scan = scan<Estimates>,
    .gather = gather<Estimates>,
    .sign_sums = sign_sums<GroupSums, 4>,
    .sums_reaching = sums_reaching,
    .sum_high = sum_high,
    .sum_high_rows = sum_high_rows,
    .sum_nibbles = sum_nibbles,
    .sum_int16_rows = sum_int16_rows,
    .rotate = rotate,
    .reaching = reaching,
    .at_least = at_least,
    .multiply = bytes::multiply,
    .encoder = &kEncoderSteps,
};

}  // namespace vecall::kernels

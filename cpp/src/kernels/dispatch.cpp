#include "kernels/dispatch.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include "kernels/cpu.hpp"
#include "vecall/errors.hpp"

#if !VECALL_HAVE_SCALAR
#error "cpp/cmake/kernels.cmake compiles this file, with a macro for each tier"
#endif

namespace vecall::kernels {

#if VECALL_HAVE_AVX512_VNNI
extern const KernelTable kAvx512VnniTable;
#endif
#if VECALL_HAVE_AVX2
extern const KernelTable kAvx2Table;
#endif
#if VECALL_HAVE_NEON_DOTPROD
extern const KernelTable kNeonDotprodTable;
#endif
#if VECALL_HAVE_NEON
extern const KernelTable kNeonTable;
#endif
extern const KernelTable kScalarTable;

namespace {

constexpr const KernelTable* kTiers[] = {
// Best first.
#if VECALL_HAVE_AVX512_VNNI
    &kAvx512VnniTable,
#endif
#if VECALL_HAVE_AVX2
    &kAvx2Table,
#endif
#if VECALL_HAVE_NEON_DOTPROD
    &kNeonDotprodTable,
#endif
#if VECALL_HAVE_NEON
    &kNeonTable,
#endif
    &kScalarTable,
};

void inherit(KernelTable& tier, const KernelTable& next) noexcept {
  if (tier.dot == nullptr) tier.dot = next.dot;
  if (tier.squares == nullptr) tier.squares = next.squares;
  if (tier.scale == nullptr) tier.scale = next.scale;
  if (tier.quantise == nullptr) tier.quantise = next.quantise;
  if (tier.centre == nullptr) tier.centre = next.centre;
  if (tier.reaching == nullptr) tier.reaching = next.reaching;
  if (tier.scan == nullptr) tier.scan = next.scan;
  if (tier.gather == nullptr) tier.gather = next.gather;
  if (tier.sign_sums == nullptr) tier.sign_sums = next.sign_sums;
  if (tier.sums_reaching == nullptr) tier.sums_reaching = next.sums_reaching;
  if (tier.sum_high == nullptr) tier.sum_high = next.sum_high;
  if (tier.sum_high_rows == nullptr) tier.sum_high_rows = next.sum_high_rows;
  if (tier.sum_nibbles == nullptr) tier.sum_nibbles = next.sum_nibbles;
  if (tier.sum_int16_rows == nullptr) tier.sum_int16_rows = next.sum_int16_rows;
  if (tier.rotate == nullptr) tier.rotate = next.rotate;
  if (tier.at_least == nullptr) tier.at_least = next.at_least;
  if (tier.crc32c == nullptr) tier.crc32c = next.crc32c;
  if (tier.multiply == nullptr) tier.multiply = next.multiply;
  if (tier.encoder == nullptr) tier.encoder = next.encoder;
}

// The tiers that this CPU can run, best first, with empty slots filled from below.
struct Runnable {
  std::array<KernelTable, std::size(kTiers)> tables{};
  std::size_t count = 0;

  explicit Runnable(std::uint32_t cpu) noexcept {
    for (const KernelTable* tier : kTiers) {
      if ((tier->needs & cpu) == tier->needs) tables[count++] = *tier;
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) inherit(tables[i], tables[j]);
    }
  }
};

const Runnable& runnable_tables() noexcept {
  static const Runnable tables(cpu_features());
  return tables;
}

const KernelTable& choose() {
  const char* forced = std::getenv("VECALL_ISA");
  if (forced == nullptr || *forced == '\0') return runnable_tables().tables[0];
  return table_of(forced);
}

}  // namespace

const KernelTable& active() {
  static const KernelTable& table = choose();
  return table;
}

std::vector<std::string_view> compiled() {
  std::vector<std::string_view> names;
  for (const KernelTable* tier : kTiers) names.emplace_back(tier->name);
  return names;
}

std::vector<std::string_view> runnable() {
  std::vector<std::string_view> names;
  const Runnable& all = runnable_tables();
  for (std::size_t i = 0; i < all.count; ++i) names.emplace_back(all.tables[i].name);
  return names;
}

const KernelTable& table_of(std::string_view name) {
  const Runnable& all = runnable_tables();
  for (std::size_t i = 0; i < all.count; ++i) {
    if (all.tables[i].name == name) return all.tables[i];
  }
  std::string message =
      "VECALL_ISA must name an instruction set that runs here, one of:";
  for (const auto choice : runnable()) message.append(" ").append(choice);
  throw ConfigError(message);
}

}  // namespace vecall::kernels

// Which kernels are chosen. Two environment variables let a script check whole runs:
// VECALL_ISA, the user's own, and VECALL_EXPECT_ISAS, the tiers that must run here.

#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels_support.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

std::string joined(const std::vector<std::string_view>& names) {
  std::string all;
  for (const auto name : names) all.append(all.empty() ? "" : " ").append(name);
  return all;
}

}  // namespace

TEST_CASE("the runnable tiers are some of the compiled ones, in their order") {
  const auto compiled = kernels::compiled();
  const auto runnable = kernels::runnable();
  REQUIRE_FALSE(runnable.empty());
  CHECK(runnable.back() == "scalar");
  CHECK(compiled.back() == "scalar");
  auto from = compiled.begin();
  for (const auto name : runnable) {
    from = std::find(from, compiled.end(), name);
    REQUIRE(from != compiled.end());
    ++from;
  }
}

TEST_CASE("the tiers that run here are the ones that the environment expects") {
  MESSAGE("runnable: ", joined(kernels::runnable()));
  const char* expected = std::getenv("VECALL_EXPECT_ISAS");
  if (expected != nullptr) CHECK(joined(kernels::runnable()) == expected);
}

TEST_CASE("every slot of a runnable tier is filled") {
  for (const auto* tier : tiers()) {
    CAPTURE(name_of(*tier));
    const bool filled[] = {tier->dot != nullptr,         tier->scan != nullptr,
                           tier->gather != nullptr,      tier->sum_high != nullptr,
                           tier->sum_nibbles != nullptr, tier->rotate != nullptr,
                           tier->at_least != nullptr,    tier->crc32c != nullptr};
    CHECK(std::count(std::begin(filled), std::end(filled), false) == 0);
  }
}

TEST_CASE("the active tier is the forced one, else the best, for good") {
  const char* forced = std::getenv("VECALL_ISA");
  const bool is_forced = forced != nullptr && *forced != '\0';
  const auto runnable = kernels::runnable();
  const std::string wanted(is_forced ? forced : runnable.front());
  if (std::find(runnable.begin(), runnable.end(), wanted) == runnable.end()) {
    CHECK_THROWS_AS(kernels::active(), ConfigError);
    return;
  }
  CHECK(name_of(kernels::active()) == wanted);
  CHECK(&kernels::active() == &kernels::active());
  CHECK(&kernels::active() == &kernels::table_of(wanted));
}

TEST_CASE("a name that cannot run here is refused with the names that can") {
  CHECK_THROWS_AS(kernels::table_of("nonsense"), ConfigError);
  CHECK_THROWS_AS(kernels::table_of(""), ConfigError);
  try {
    kernels::table_of("nonsense");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).ends_with(joined(kernels::runnable())));
  }
}

}  // namespace vecall::testing

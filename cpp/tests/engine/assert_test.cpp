// A broken precondition ends the process where assertions are active, and costs nothing
// elsewhere.

#include "vecall/assert.hpp"

#include <doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "engine_support.hpp"
#include "index/shortlist.hpp"
#include "terms/posting_list.hpp"
#include "vectors/row_codes.hpp"
#include "vectors/vector_space.hpp"

namespace vecall::testing {

namespace {

#if VECALL_ASSERTIONS
// Whether `run` ends a child of this process by SIGABRT.
template <class Run>
bool aborts(Run run) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // doctest reports it as a failure of this process
    static_cast<void>(std::freopen("/dev/null", "w", stderr));
    run();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
#endif

}  // namespace

#if VECALL_ASSERTIONS
TEST_CASE("an assertion that fails ends the process, one that holds does not") {
  CHECK(aborts([] { VECALL_ASSERT(1 + 1 == 3); }));
  CHECK_FALSE(aborts([] { VECALL_ASSERT(1 + 1 == 2); }));
}

TEST_CASE("a precondition of the core is asserted") {
  CHECK(aborts([] { Shortlist().begin(0, {}); }));
  CHECK(aborts([] {
    PostingList list;
    list.insert({7, 1});
    list.insert({7, 1});
  }));
  CHECK_FALSE(aborts([] {
    PostingList list;
    list.insert({7, 1});
    list.insert({8, 1});
  }));
}

TEST_CASE("a row is encoded only if its norm is 1") {
  constexpr std::size_t kDim = 64;
  const VectorSpace space(kDim, Codec::kInt4Plus8, false);
  const auto encode = [&space](float scale) {
    Vector given = unit_vector(3, kDim);
    for (float& value : given) value *= scale;
    std::vector<std::uint8_t> high(space.high_bytes());
    std::vector<std::uint8_t> low(space.low_bytes());
    float factor = 0;
    float step = 0;
    RowEncoder encoder;
    encoder.prepare(space);
    encoder.encode(space, given,
                   {high.data(), low.data(), nullptr, nullptr, &factor, &step});
  };
  CHECK_FALSE(aborts([&] { encode(1.0F); }));
  for (const float scale : {0.0F, 0.5F, 1.01F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    CAPTURE(scale);
    CHECK(aborts([&] { encode(scale); }));
  }
}
#else
TEST_CASE("without assertions the condition is not evaluated") {
  int evaluated = 0;
  VECALL_ASSERT(++evaluated == 0);
  CHECK(evaluated == 0);
}
#endif

}  // namespace vecall::testing

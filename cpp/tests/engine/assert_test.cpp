// A broken precondition ends the process where assertions are active, and costs nothing
// elsewhere.

#include "vecall/assert.hpp"

#include <doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "index/shortlist.hpp"
#include "terms/posting_list.hpp"

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
#else
TEST_CASE("without assertions the condition is not evaluated") {
  int evaluated = 0;
  VECALL_ASSERT(++evaluated == 0);
  CHECK(evaluated == 0);
}
#endif

}  // namespace vecall::testing

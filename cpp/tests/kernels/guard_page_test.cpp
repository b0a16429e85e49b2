// The other tests rely on it: whoever leaves a buffer does not come back.

#include <doctest.h>

#if !defined(_WIN32)
#include <sys/wait.h>

#include <csignal>
#endif

#include "kernels_support.hpp"

namespace vecall::testing {

namespace {

// Whether a process that reads this byte is stopped by the page that it lies in.
#if defined(_WIN32)
bool is_guarded(const std::byte* at) {
  return ::IsBadReadPtr(at, 1) != 0;  // it reads, and catches the exception
}
#else
constexpr int kStopped = 42;

bool is_guarded(const std::byte* at) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS}) {
      std::signal(signal, [](int) { ::_exit(kStopped); });
    }
    static_cast<void>(*static_cast<const volatile std::byte*>(at));
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == kStopped;
}
#endif

template <class T>
const std::byte* bytes_of(const Guarded<T>& buffer) {
  return reinterpret_cast<const std::byte*>(buffer.data());
}

}  // namespace

TEST_CASE("a buffer can be read up to its page and not beyond") {
  for (const std::size_t count : {1U, 100U, 1024U, 5000U}) {
    CAPTURE(count);
    const std::size_t bytes = count * sizeof(float);
    const Guarded<float> at_end(count);
    CHECK_FALSE(is_guarded(bytes_of(at_end) + bytes - 1));
    CHECK(is_guarded(bytes_of(at_end) + bytes));
    const Guarded<float> at_begin(count, {.at_begin = true});
    CHECK_FALSE(is_guarded(bytes_of(at_begin)));
    CHECK(is_guarded(bytes_of(at_begin) - 1));
  }
  CHECK(is_guarded(bytes_of(Guarded<float>(0))));
}

}  // namespace vecall::testing

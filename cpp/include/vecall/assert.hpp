#pragma once

// VECALL_ASSERT(condition) ends the process with a message where a caller breaks what a
// comment REQUIRES. Active in debug builds and with sanitizers; elsewhere the condition
// is compiled and never evaluated.

#if !defined(VECALL_ASSERTIONS)
#define VECALL_ASSERTIONS 0
#endif

namespace vecall {

// Prints the condition and its place to stderr, and aborts.
[[noreturn]] void fail_assertion(const char* condition, const char* file,
                                 int line) noexcept;

}  // namespace vecall

#if VECALL_ASSERTIONS
#define VECALL_ASSERT(condition) \
  ((condition) ? void() : ::vecall::fail_assertion(#condition, __FILE__, __LINE__))
#else
#define VECALL_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif

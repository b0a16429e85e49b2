#pragma once

// Gives the interpreter lock away only when a call of the engine waits or gets long.
// `GilRelease` gives it away for a whole scope. Releasing it for a few microseconds of
// work costs milliseconds at the 99th percentile, because a busy Python thread then
// keeps it for its whole switch interval; keeping it for long work stops every other
// thread. So the engine says when a call waits or gets long, and no thread that holds a
// partition's lock ever waits for the interpreter.

#include <optional>
#include <utility>

#include "gil_release.hpp"
#include "vecall/wait_hook.hpp"

namespace vecall::bindings {

// Calls call(hook): from the moment when the engine calls the hook until the call
// returns, the interpreter lock is released.
template <class Call>
auto with_wait_hook(Call call) {
  std::optional<GilRelease> release;
  const auto before_wait = [&release] { release.emplace(); };
  return call(WaitHook(before_wait));
}

}  // namespace vecall::bindings

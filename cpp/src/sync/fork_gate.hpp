#pragma once

// No process forks in the middle of a change: fork waits for all changes that were
// begun, and new ones wait until it is done. A child would otherwise have data that is
// half changed, under a lock that no thread of it holds.
//
// No thread in the gate waits for the interpreter, which the forking thread holds,
// nor enters the gate a second time.

#include <shared_mutex>

#include "sync/shared_mutex.hpp"

namespace vecall {

// As pthread_atfork; nothing on Windows, which has no fork.
void at_fork(void (*before)(), void (*after_in_parent)(), void (*after_in_child)());

class ForkGate {
 public:
  using Pass = std::shared_lock<SharedMutex>;

  static ForkGate& shared();

  // Held while something changes that a child of fork would have. Taken before any
  // other lock but that of the linker's thread, which fork takes before the gate.
  [[nodiscard]] static Pass enter() { return Pass(shared().mutex_); }

 private:
  ForkGate();
  // Lock in the one and unlock in the other, which the analysis cannot follow.
  static void before_fork() VECALL_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_parent() VECALL_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_child();

  SharedMutex mutex_;
};

}  // namespace vecall

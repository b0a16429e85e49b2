#include "sync/fork_gate.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace vecall {

void at_fork([[maybe_unused]] void (*before)(),
             [[maybe_unused]] void (*after_in_parent)(),
             [[maybe_unused]] void (*after_in_child)()) {
#if !defined(_WIN32)
  pthread_atfork(before, after_in_parent, after_in_child);
#endif
}

ForkGate& ForkGate::shared() {
  static auto* const gate = new ForkGate();  // outlives every static destructor
  return *gate;
}

ForkGate::ForkGate() {
  at_fork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

void ForkGate::before_fork() {
  shared().mutex_.lock();
}

void ForkGate::after_fork_in_parent() {
  shared().mutex_.unlock();
}

// The gate itself is one of the mutexes.
void ForkGate::after_fork_in_child() {
  SharedMutex::free_all_after_fork();
}

}  // namespace vecall

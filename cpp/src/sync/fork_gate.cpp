#include "sync/fork_gate.hpp"

#include <pthread.h>

namespace vecall {

ForkGate& ForkGate::shared() {
  static auto* const gate = new ForkGate();  // outlives every static destructor
  return *gate;
}

ForkGate::ForkGate() {
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
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

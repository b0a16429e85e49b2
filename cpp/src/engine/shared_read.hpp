#pragma once

// A read of a partition under its shared lock, with the caller's hook before what may
// take long. Bindings that hold an interpreter lock keep it for short searches: to
// release it for a few microseconds costs milliseconds at the 99th percentile, because
// a busy thread of the interpreter then holds it for its whole switch interval.

#include <cstddef>

#include "partition/partition.hpp"
#include "sync/locks.hpp"
#include "vecall/wait_hook.hpp"

namespace vecall {

class VECALL_SCOPED_CAPABILITY SharedRead {
 public:
  SharedRead(const Partition& partition, WaitHook before_wait)
      VECALL_ACQUIRE_SHARED(partition.mutex())
      : mutex_(partition.mutex()), before_wait_(before_wait) {
    if (partition.mutex().try_lock_shared()) return;
    before_wait_();
    called_ = true;
    partition.mutex().lock_shared();
  }
  ~SharedRead() VECALL_RELEASE() { mutex_.unlock_shared(); }
  SharedRead(const SharedRead&) = delete;
  SharedRead& operator=(const SharedRead&) = delete;

  // Says how many bytes of codes are looked at under the lock.
  void expect(std::size_t bytes) {
    if (called_ || bytes <= kLongWork) return;
    before_wait_();
    called_ = true;
  }

 private:
  SharedMutex& mutex_;
  WaitHook before_wait_;
  bool called_ = false;
};

}  // namespace vecall

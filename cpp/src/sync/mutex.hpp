#pragma once

// std::mutex and a scoped hold of it that clang's thread-safety analysis understands.
// It has no attributes for those of libstdc++.

#include <condition_variable>
#include <mutex>

#include "sync/thread_annotations.hpp"

namespace vecall {

class VECALL_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  ~Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() VECALL_ACQUIRE() { mutex_.lock(); }
  void unlock() VECALL_RELEASE() { mutex_.unlock(); }
  // Releases the mutex until `signal` is notified, or for no reason; holds it again
  // when it returns.
  void wait(std::condition_variable& signal) VECALL_REQUIRES(this) {
    std::unique_lock held(mutex_, std::adopt_lock);
    signal.wait(held);
    held.release();
  }

 private:
  std::mutex mutex_;
};

class VECALL_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) VECALL_ACQUIRE(mutex) : mutex_(mutex) {
    mutex.lock();
  }
  ~MutexLock() VECALL_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace vecall

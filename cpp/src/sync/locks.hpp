#pragma once

// Scoped holds of a SharedMutex that clang's thread-safety analysis understands, where
// it does not understand std::shared_lock and std::unique_lock.

#include "sync/shared_mutex.hpp"
#include "sync/thread_annotations.hpp"

namespace vecall {

class VECALL_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) noexcept VECALL_ACQUIRE_SHARED(mutex)
      : mutex_(mutex) {
    mutex.lock_shared();
  }
  ~ReaderLock() VECALL_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class VECALL_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) noexcept VECALL_ACQUIRE(mutex)
      : mutex_(mutex) {
    mutex.lock();
  }
  ~WriterLock() VECALL_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace vecall

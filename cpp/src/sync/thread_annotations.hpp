#pragma once

// Lock rules that clang checks (-Wthread-safety; .ci/tidy runs it). Other compilers see
// nothing. As in LevelDB's port/thread_annotations.h.

#if defined(__clang__)
#define VECALL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VECALL_THREAD_ATTRIBUTE(x)
#endif

#define VECALL_CAPABILITY(x) VECALL_THREAD_ATTRIBUTE(capability(x))
#define VECALL_SCOPED_CAPABILITY VECALL_THREAD_ATTRIBUTE(scoped_lockable)
#define VECALL_GUARDED_BY(x) VECALL_THREAD_ATTRIBUTE(guarded_by(x))
#define VECALL_REQUIRES(...) VECALL_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define VECALL_REQUIRES_SHARED(...) \
  VECALL_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define VECALL_ACQUIRE(...) VECALL_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define VECALL_ACQUIRE_SHARED(...) \
  VECALL_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define VECALL_RELEASE(...) VECALL_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define VECALL_RELEASE_SHARED(...) \
  VECALL_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
#define VECALL_TRY_ACQUIRE(...) \
  VECALL_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define VECALL_TRY_ACQUIRE_SHARED(...) \
  VECALL_THREAD_ATTRIBUTE(try_acquire_shared_capability(__VA_ARGS__))
#define VECALL_ASSERT_CAPABILITY(x) VECALL_THREAD_ATTRIBUTE(assert_capability(x))
#define VECALL_ASSERT_SHARED_CAPABILITY(x) \
  VECALL_THREAD_ATTRIBUTE(assert_shared_capability(x))
#define VECALL_EXCLUDES(...) VECALL_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define VECALL_NO_THREAD_SAFETY_ANALYSIS \
  VECALL_THREAD_ATTRIBUTE(no_thread_safety_analysis)
#define VECALL_RETURN_CAPABILITY(x) VECALL_THREAD_ATTRIBUTE(lock_returned(x))

#pragma once

// What a caller does before a call waits for a lock or begins long work. The bindings
// release the interpreter lock there: to release it for a search of a few microseconds
// would cost more than the search.

#include <cstddef>
#include <memory>

namespace vecall {

// Bytes of codes above which a call is long: about 70 us of work.
inline constexpr std::size_t kLongWork = std::size_t{2} << 20;

// Refers to a callable that outlives the call it is passed to. Called at most once in
// it. The callable must not wait: it may run while a partition's shared lock is held.
class WaitHook {
 public:
  WaitHook() = default;
  template <class Callable>
  explicit WaitHook(const Callable& callable)
      : callable_(std::addressof(callable)),
        call_([](const void* of) { (*static_cast<const Callable*>(of))(); }) {}

  void operator()() const {
    if (call_ != nullptr) call_(callable_);
  }

 private:
  const void* callable_ = nullptr;
  void (*call_)(const void*) = nullptr;
};

// What a caller does now and then in a call that takes long, such as to look whether it
// shall end: what the callable throws ends the call. Called any number of times, by the
// calling thread alone, which holds no lock then. Refers to a callable that outlives
// the call it is passed to.
class PauseHook {
 public:
  PauseHook() = default;
  template <class Callable>
  explicit PauseHook(Callable& callable)
      : callable_(std::addressof(callable)),
        call_([](void* of) { (*static_cast<Callable*>(of))(); }) {}

  void operator()() const {
    if (call_ != nullptr) call_(callable_);
  }

 private:
  void* callable_ = nullptr;
  void (*call_)(void*) = nullptr;
};

}  // namespace vecall

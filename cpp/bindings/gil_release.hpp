#pragma once

// Gives the interpreter lock away for a scope, for calls that always take long;
// gil_release_on_wait.hpp is for those that rarely do.
//
// pybind11's gil_scoped_release ends the process if a daemon thread takes the
// interpreter lock back while the interpreter is finalised: CPython before 3.14 then
// calls pthread_exit, whose forced unwind may not leave a destructor. `GilRelease`
// stops such a thread where it is, as CPython 3.14 does; the end of the process ends
// it.

#include <pybind11/pybind11.h>

#include <chrono>
#include <utility>

#if defined(__GLIBCXX__) && !defined(_WIN32)
#include <cxxabi.h>
#include <unistd.h>
#endif

namespace vecall::bindings {

// Gives the interpreter lock away for its scope.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  GilRelease(GilRelease&&) = delete;
  GilRelease& operator=(GilRelease&&) = delete;

  ~GilRelease() {
    if (state_ != nullptr) take_back();
  }

 protected:
  void take_back() {
    PyThreadState* const state = std::exchange(state_, nullptr);
#if defined(__GLIBCXX__) && !defined(_WIN32)
    try {
      PyEval_RestoreThread(state);
    } catch (const abi::__forced_unwind&) {
      while (true) pause();  // leaving this handler would end the process
    }
#else
    PyEval_RestoreThread(state);
#endif
  }
  void give_again() { state_ = PyEval_SaveThread(); }

 private:
  PyThreadState* state_;  // null while this thread holds the lock
};

// The same for calls that last: () runs Python's handlers of signals now and then, and
// throws what they raise, such as KeyboardInterrupt. Only where no lock is held.
class InterruptibleRelease : public GilRelease {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    take_back();
    if (PyErr_CheckSignals() != 0) {
      const pybind11::error_already_set raised;
      give_again();  // other threads of the call may have to end first
      throw raised;
    }
    // Other threads get no signals, and each look may wait 5 ms for a busy one.
    next_ = is_main_thread() ? now + kBetween : Time::max();
    give_again();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kBetween{50};

  static bool is_main_thread() {
    const auto threading = pybind11::module_::import("threading");
    return threading.attr("current_thread")().is(threading.attr("main_thread")());
  }

  Time next_ = std::chrono::steady_clock::now() + kBetween;
};

}  // namespace vecall::bindings

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

#if defined(__GLIBCXX__)
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
#if defined(__GLIBCXX__)
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      while (true) pause();  // leaving this handler would end the process
    }
#else
    PyEval_RestoreThread(state_);
#endif
  }

 private:
  PyThreadState* state_;
};

}  // namespace vecall::bindings

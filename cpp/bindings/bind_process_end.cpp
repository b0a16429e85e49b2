#if defined(_WIN32)
#include <windows.h>

#include <fstream>
#else
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "bindings.hpp"
#include "casters.hpp"
#include "strict.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  constexpr double kMost = 1e6;
  const double bounded = seconds >= 0.0 ? std::min(seconds, kMost) : 0.0;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(bounded));
}

// Of the whole process, without any clean-up.
[[noreturn]] void end_process() {
#if defined(_WIN32)
  ::TerminateProcess(::GetCurrentProcess(), 0);
  std::abort();  // never reached
#else
  ::_exit(0);
#endif
}

std::filesystem::path file_path(const Path& path) {
#if defined(_WIN32)  // Python's encoding of file names there is UTF-8
  return {std::u8string(path.value.begin(), path.value.end())};
#else
  return path.value;
#endif
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm split{};
#if defined(_WIN32)
  const bool failed = ::gmtime_s(&split, &now) != 0;
#else
  const bool failed = ::gmtime_r(&now, &split) == nullptr;
#endif
  std::array<char, 32> moment{};
  if (failed) return "";
  std::strftime(moment.data(), moment.size(), "%Y-%m-%dT%H:%M:%SZ ", &split);
  return moment.data();
}

// Ends the process from a thread that never takes the interpreter lock, so that Python
// code which keeps the lock cannot put the end off.
class ProcessEnd {
 public:
  ProcessEnd(double seconds, const Path& log, std::string line)
      : shared_(
            std::make_shared<Shared>(after(seconds), file_path(log), std::move(line))) {
    std::thread([shared = shared_] { shared->wait(); }).detach();
  }

  void put_off(double seconds) { shared_->put_off(seconds); }
  void cancel() { shared_->cancel(); }

 private:
  class Shared {
   public:
    Shared(Clock::time_point end, std::filesystem::path log, std::string line)
        : end_(end), log_(std::move(log)), line_(std::move(line)) {}

    void wait() {
      std::unique_lock lock(mutex_);
      while (!cancelled_ && Clock::now() < end_) changed_.wait_until(lock, end_);
      if (cancelled_) return;
      write_line();
      end_process();
    }

    void put_off(double seconds) {
      const std::lock_guard lock(mutex_);
      end_ += after(seconds) - Clock::now();
    }

    void cancel() {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      changed_.notify_all();
    }

   private:
    void write_line() const {
      std::error_code failed;
      const std::filesystem::path folder = log_.parent_path();
      std::filesystem::create_directories(folder.parent_path(), failed);
      const std::string line = time_now() + line_ + "\n";
#if defined(_WIN32)
      std::filesystem::create_directory(folder, failed);
      std::ofstream(log_, std::ios::app | std::ios::binary) << line;
#else
      ::mkdir(folder.c_str(), 0700);
      constexpr int kFlags =
          O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
      const int file = ::open(log_.c_str(), kFlags, 0600);
      if (file < 0) return;
      [[maybe_unused]] const auto written = ::write(file, line.data(), line.size());
#endif
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    Clock::time_point end_;
    bool cancelled_ = false;
    std::filesystem::path log_;
    std::string line_;
  };

  std::shared_ptr<Shared> shared_;
};

}  // namespace

void bind_process_end(py::module_& module) {
  py::class_<ProcessEnd> bound(module, "ProcessEnd",
                               R"(Ends the process with status 0 at a given time.

A thread of its own waits, which needs no interpreter lock: code that never gives the lock
away, such as a regular expression, is ended as well. Not inherited by a fork.

Args:
    seconds: The time until the end. Negative counts as 0.
    log: A file to which a line is appended before the end; its folder is made.
    line: The line, after the time.)");
  def_strict_init(bound, py::init<double, const Path&, std::string>(), "seconds"_a,
                  "log"_a, "line"_a);
  def_strict(bound, "put_off", &ProcessEnd::put_off, "seconds"_a,
             "Moves the end by so many seconds.");
  def_strict(bound, "cancel", &ProcessEnd::cancel, "Lets the process live.");
}

}  // namespace vecall::bindings

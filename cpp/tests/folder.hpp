#pragma once

// A folder that is there for one test.

#include <filesystem>
#include <random>
#include <string>

namespace vecall::testing {

class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() /
            ("vecall." + std::to_string(std::random_device()()));
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string of(const char* name) const {
    const std::u8string utf8 = (path_ / name).u8string();
    return {utf8.begin(), utf8.end()};
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace vecall::testing

#pragma once

// Writes the members of objects as bytes, and reads them again in the same build. A
// class names its members once, in a static function each(self, archive).

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "vecall/errors.hpp"

namespace vecall {

class PreparedWriter {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (add(values), ...);
  }
  [[nodiscard]] std::string& bytes() noexcept { return bytes_; }

 private:
  template <class T>
  void add(const T& value) {
    if constexpr (requires { T::each(value, *this); }) {
      T::each(value, *this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      append(&value, sizeof(value));
    }
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.size());
    if constexpr (requires { T::each(values[0], *this); }) {
      for (const T& value : values) T::each(value, *this);
    } else {
      append(values.data(), values.size() * sizeof(T));
    }
  }
  void add(const std::string& text) {
    add(text.size());
    append(text.data(), text.size());
  }
  void append(const void* from, std::size_t size) {
    if (size != 0) bytes_.append(static_cast<const char*>(from), size);
  }

  std::string bytes_;
};

class PreparedReader {
 public:
  explicit PreparedReader(std::string_view bytes) : left_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (read(values), ...);
  }
  [[nodiscard]] bool is_at_end() const noexcept { return left_.empty(); }

 private:
  template <class T>
  void read(T& value) {
    if constexpr (requires { T::each(value, *this); }) {
      T::each(value, *this);
    } else {
      static_assert(std::is_trivially_copyable_v<T>);
      take(&value, sizeof(value));
    }
  }
  template <class T>
  void read(std::vector<T>& values) {
    if constexpr (requires { T::each(values[0], *this); }) {
      values.resize(count_of(1));
      for (T& value : values) T::each(value, *this);
    } else {
      values.resize(count_of(sizeof(T)));
      take(values.data(), values.size() * sizeof(T));
    }
  }
  void read(std::string& text) {
    text.resize(count_of(1));
    take(text.data(), text.size());
  }
  // A number of values, for which there are bytes enough.
  std::size_t count_of(std::size_t size) {
    std::size_t count = 0;
    read(count);
    if (count > left_.size() / size) refuse();
    return count;
  }
  void take(void* to, std::size_t size) {
    if (size > left_.size()) refuse();
    if (size != 0) std::memcpy(to, left_.data(), size);
    left_.remove_prefix(size);
  }
  [[noreturn]] static void refuse() {
    throw CorruptDataError("prepared: ends too early");
  }

  std::string_view left_;
};

}  // namespace vecall

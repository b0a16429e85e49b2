// snapshot_file.hpp on Windows, in place of snapshot_file.cpp.

#include <windows.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "snapshot/snapshot_file.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of one call
constexpr int kAttempts = 11;                             // two seconds

[[noreturn]] void fail(const char* what, DWORD error) {
  const std::string message = std::string(what) + ": " +
                              std::system_category().message(static_cast<int>(error));
  if (error == ERROR_DISK_FULL || error == ERROR_HANDLE_DISK_FULL) {
    throw FileFullError(message);
  }
  throw FileError(message);
}

// A path is UTF-8.
std::wstring wide(const std::string& path) {
  const int bytes = static_cast<int>(path.size());
  const int size = ::MultiByteToWideChar(CP_UTF8, 0, path.data(), bytes, nullptr, 0);
  std::wstring result(static_cast<std::size_t>(size), L'\0');
  ::MultiByteToWideChar(CP_UTF8, 0, path.data(), bytes, result.data(), size);
  return result;
}

class OpenFile {
 public:
  OpenFile(const std::wstring& path, DWORD access, DWORD share, DWORD creation)
      : handle_(::CreateFileW(path.c_str(), access, share, nullptr, creation,
                              FILE_ATTRIBUTE_NORMAL, nullptr)) {}
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const noexcept {
    return handle_ != INVALID_HANDLE_VALUE;
  }
  [[nodiscard]] HANDLE handle() const noexcept { return handle_; }
  void close() noexcept {
    if (is_open()) ::CloseHandle(handle_);
    handle_ = INVALID_HANDLE_VALUE;
  }

 private:
  HANDLE handle_;
};

// 0, or the error.
DWORD write_all(HANDLE file, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    DWORD written = 0;
    const auto part = static_cast<DWORD>(std::min(bytes.size(), kMostBytes));
    if (::WriteFile(file, bytes.data(), part, &written, nullptr) == 0) {
      return ::GetLastError();
    }
    bytes = bytes.subspan(written);
  }
  return ::FlushFileBuffers(file) != 0 ? 0 : ::GetLastError();
}

// 0, or the error. A file that another process reads is waited for.
DWORD rename_over(const std::wstring& from, const std::wstring& to) noexcept {
  DWORD error = 0;
  for (int n = 0; n < kAttempts; ++n) {
    if (n > 0) ::Sleep(DWORD{1} << (n - 1));
    constexpr DWORD kFlags = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    if (::MoveFileExW(from.c_str(), to.c_str(), kFlags) != 0) return 0;
    error = ::GetLastError();
    if (error != ERROR_ACCESS_DENIED && error != ERROR_SHARING_VIOLATION) break;
    const DWORD about = ::GetFileAttributesW(to.c_str());
    if (about != INVALID_FILE_ATTRIBUTES && (about & FILE_ATTRIBUTE_DIRECTORY) != 0) {
      break;
    }
  }
  return error;
}

// For reading, a regular file; `size` gets its bytes.
struct RegularFile : OpenFile {
  std::size_t size = 0;

  explicit RegularFile(const std::string& path)
      : OpenFile(wide(path), GENERIC_READ,
                 FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                 OPEN_EXISTING) {
    if (!is_open()) {
      const DWORD error = ::GetLastError();
      if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND) {
        throw MissingFileError("load: there is no such file");
      }
      fail("load: the file could not be opened", error);
    }
    LARGE_INTEGER bytes{};
    if (::GetFileType(handle()) != FILE_TYPE_DISK ||
        ::GetFileSizeEx(handle(), &bytes) == 0) {
      fail("load: no regular file", ERROR_INVALID_PARAMETER);
    }
    size = static_cast<std::size_t>(bytes.QuadPart);
  }
};

}  // namespace

void write_snapshot_file(const std::string& path, std::span<const std::byte> bytes) {
  const std::wstring target = wide(path);
  std::wstring beside;
  LARGE_INTEGER ticks{};
  ::QueryPerformanceCounter(&ticks);
  DWORD error = ERROR_FILE_EXISTS;
  for (int n = 0; n < 100 && error == ERROR_FILE_EXISTS; ++n) {
    beside = target + L"." + std::to_wstring(::GetCurrentProcessId()) + L"-" +
             std::to_wstring(::GetCurrentThreadId()) + L"-" +
             std::to_wstring(ticks.QuadPart + n);
    OpenFile made(beside, GENERIC_WRITE, 0, CREATE_NEW);
    if (!made.is_open()) {
      error = ::GetLastError();
      continue;
    }
    error = write_all(made.handle(), bytes);
    made.close();
    if (error == 0) error = rename_over(beside, target);
    if (error == 0) return;
    ::DeleteFileW(beside.c_str());
    fail("save: the file could not be written", error);
  }
  fail("save: the file could not be made", error);
}

std::vector<std::byte> read_snapshot_file(const std::string& path) {
  const RegularFile file(path);
  std::vector<std::byte> bytes(file.size);
  std::size_t have = 0;
  while (have < bytes.size()) {
    DWORD got = 0;
    const auto part = static_cast<DWORD>(std::min(bytes.size() - have, kMostBytes));
    if (::ReadFile(file.handle(), bytes.data() + have, part, &got, nullptr) == 0) {
      fail("load: the file could not be read", ::GetLastError());
    }
    if (got == 0) break;  // shorter than it was: the checks will say so
    have += got;
  }
  bytes.resize(have);
  return bytes;
}

MappedFile::MappedFile(const std::string& path) {
  const RegularFile file(path);
  if (file.size == 0) return;  // nothing can be mapped of it
  const HANDLE mapping =
      ::CreateFileMappingW(file.handle(), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) fail("load: the file could not be mapped", ::GetLastError());
  const void* begin = ::MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, file.size);
  const DWORD error = begin == nullptr ? ::GetLastError() : 0;
  ::CloseHandle(mapping);  // the view keeps it
  if (begin == nullptr) fail("load: the file could not be mapped", error);
  bytes_ = {static_cast<const std::byte*>(begin), file.size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::UnmapViewOfFile(bytes_.data());
}

}  // namespace vecall

#include "snapshot/snapshot_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "vecall/errors.hpp"

namespace vecall {

namespace {

[[noreturn]] void fail(const char* what, int error) {
  const std::string message =
      std::string(what) + ": " + std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) throw FileFullError(message);
  throw FileError(message);
}

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags, mode_t mode)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

// For reading, a regular file; `size` gets its bytes.
struct RegularFile : OpenFile {
  std::size_t size = 0;

  // Without O_NONBLOCK a FIFO would be waited for until somebody writes to it.
  explicit RegularFile(const std::string& path)
      : OpenFile(path, O_RDONLY | O_NONBLOCK, 0) {
    struct stat facts{};
    if (!is_open() || ::fstat(descriptor(), &facts) != 0) {
      if (errno == ENOENT) throw MissingFileError("load: there is no such file");
      fail("load: the file could not be opened", errno);
    }
    if (!S_ISREG(facts.st_mode)) fail("load: no regular file", EINVAL);
    size = static_cast<std::size_t>(facts.st_size);
  }
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// 0, or the error.
int write_all(int descriptor, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

}  // namespace

void write_snapshot_file(const std::string& path, std::span<const std::byte> bytes) {
  // Before anything is written: what cannot be synced is not replaced.
  const OpenFile folder(folder_of(path), O_RDONLY, 0);
  if (!folder.is_open() || ::fsync(folder.descriptor()) != 0) {
    fail("save: the folder could not be opened and synced", errno);
  }
  std::string beside = path + ".XXXXXX";
  const int made = ::mkstemp(beside.data());  // 0600, no name that exists
  if (made < 0) fail("save: the file could not be made", errno);
  int error = write_all(made, bytes);
  if (::close(made) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(beside.c_str());
    fail("save: the file could not be written", error);
  }
  if (::fsync(folder.descriptor()) != 0) {
    fail("save: the file is there, but its folder could not be synced", errno);
  }
}

std::vector<std::byte> read_snapshot_file(const std::string& path) {
  const RegularFile file(path);
  std::vector<std::byte> bytes(file.size);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got =
        ::read(file.descriptor(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("load: the file could not be read", errno);
    if (got == 0) break;  // shorter than it was: the checks will say so
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

MappedFile::MappedFile(const std::string& path) {
  const RegularFile file(path);
  if (file.size == 0) return;  // nothing can be mapped of it
  void* begin = ::mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (begin == MAP_FAILED) fail("load: the file could not be mapped", errno);
  bytes_ = {static_cast<const std::byte*>(begin), file.size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it only unmaps
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace vecall

#pragma once

// Snapshots as files. What stands under a name is a whole snapshot or none,
// however many threads and processes write it.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vecall {

// Writes beside `path`, syncs, and renames over it; readable by the owner alone. Throws
// FileFullError or FileError; what stood there before still does, unless the disk fails
// at the very end, when the name is already that of the new file.
void write_snapshot_file(const std::string& path, std::span<const std::byte> bytes);

// Throws FileError, MissingFileError where nothing has that name.
std::vector<std::byte> read_snapshot_file(const std::string& path);

// The bytes of a file as memory that cannot be written, shared by all processes that
// map it. What is saved under the name later is another file, and these bytes stay.
class MappedFile {
 public:
  // Throws as read_snapshot_file() does.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace vecall

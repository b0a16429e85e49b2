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

}  // namespace vecall

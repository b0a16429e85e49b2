// Snapshots as files: whole, the owner's alone, and refused where there is no file.

#include "snapshot/snapshot_file.hpp"

#include <doctest.h>

#if !defined(_WIN32)
#include <sys/stat.h>
#endif

#include <filesystem>
#include <string>
#include <vector>

#include "folder.hpp"
#include "vecall/errors.hpp"

namespace vecall::testing {

namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

}  // namespace

TEST_CASE("a file holds the bytes that were written last, and is the owner's alone") {
  const Folder folder;
  for (const std::size_t count : {100'000, 0, 17}) {
    const auto bytes = bytes_of(count);
    write_snapshot_file(folder.of("a"), bytes);
    CHECK(read_snapshot_file(folder.of("a")) == bytes);
#if !defined(_WIN32)  // which has no such permissions
    struct stat facts{};
    REQUIRE(stat(folder.of("a").c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
#endif
    CHECK(folder.files() == 1);
  }
}

TEST_CASE("what is no file is refused and not waited for") {
  const Folder folder;
  CHECK_THROWS_AS(read_snapshot_file(folder.of("none")), MissingFileError);
  CHECK_THROWS_AS(read_snapshot_file(folder.of(".")), FileError);
#if !defined(_WIN32)
  REQUIRE(mkfifo(folder.of("fifo").c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_snapshot_file(folder.of("fifo")), FileError);
#endif
}

TEST_CASE("a name is UTF-8") {
  const Folder folder;
  const std::string name = folder.of("") + "\xC3\xA4\xE6\xBC\xA2 index.vs";
  write_snapshot_file(name, bytes_of(17));
  write_snapshot_file(name, bytes_of(9));
  CHECK(read_snapshot_file(name) == bytes_of(9));
  CHECK(folder.files() == 1);
  CHECK(std::filesystem::exists(
      std::filesystem::path(std::u8string(name.begin(), name.end()))));
}

TEST_CASE("a file that cannot be written leaves nothing") {
  const Folder folder;
  CHECK_THROWS_AS(write_snapshot_file(folder.of("none/a"), bytes_of(9)), FileError);
  std::filesystem::create_directory(folder.of("taken"));
  write_snapshot_file(folder.of("taken/inside"), bytes_of(9));
  CHECK_THROWS_AS(write_snapshot_file(folder.of("taken"), bytes_of(9)), FileError);
  CHECK(folder.files() == 1);
  CHECK(read_snapshot_file(folder.of("taken/inside")) == bytes_of(9));
}

}  // namespace vecall::testing

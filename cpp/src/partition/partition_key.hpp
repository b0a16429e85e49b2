#pragma once

// A partition's key as the map holds it: hashed, and owned in one block.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>

#include "vecall/types.hpp"

namespace vecall {

[[nodiscard]] inline std::uint32_t hash_of(PartitionKey key) noexcept {
  const std::uint64_t both =
      std::hash<std::string_view>{}(key.user) ^
      (std::hash<std::string_view>{}(key.app) * 0x9E37'79B9'7F4A'7C15ULL);
  const std::uint64_t mixed = both * 0xD6E8'FEB8'6659'FD93ULL;
  return static_cast<std::uint32_t>(mixed >> 32);
}

// Both names in one block.
class OwnedKey {
 public:
  OwnedKey() = default;
  explicit OwnedKey(PartitionKey key)
      : block_(std::make_unique_for_overwrite<char[]>(kFront + key.app.size() +
                                                      key.user.size())) {
    const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(key.app.size()),
                                    static_cast<std::uint32_t>(key.user.size())};
    std::memcpy(block_.get(), sizes, kFront);
    key.app.copy(block_.get() + kFront, key.app.size());
    key.user.copy(block_.get() + kFront + key.app.size(), key.user.size());
  }

  // Valid while this object exists; empty names if there are none.
  [[nodiscard]] PartitionKey view() const noexcept {
    if (!block_) return {};
    std::uint32_t sizes[2];
    std::memcpy(sizes, block_.get(), kFront);
    const char* names = block_.get() + kFront;
    return {{names, sizes[0]}, {names + sizes[0], sizes[1]}};
  }
  [[nodiscard]] std::size_t nbytes() const noexcept {
    const PartitionKey key = view();
    return block_ ? kFront + key.app.size() + key.user.size() : 0;
  }

 private:
  static constexpr std::size_t kFront = 2 * sizeof(std::uint32_t);

  std::unique_ptr<char[]> block_;
};

}  // namespace vecall

#pragma once

// Finds the partition of an (app, user) pair. Both names are compared whole and apart,
// so
// ("a", "b/c") and ("a/b", "c") are strangers. Thread-safe; its lock is held only while
// the partition is looked up, never while one is searched, and is taken before a
// partition's.

#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "partition/partition.hpp"

namespace vecall {

struct PartitionKey {
  std::string_view app;
  std::string_view user;
};

class PartitionMap {
 public:
  explicit PartitionMap(std::shared_ptr<const PartitionSpace> space)
      : space_(std::move(space)) {}

  // Null if there is none. The partition stays alive while the pointer is held, even if
  // it is erased meanwhile.
  [[nodiscard]] std::shared_ptr<Partition> find(PartitionKey key) const;
  std::shared_ptr<Partition> find_or_create(PartitionKey key);
  // Replaces what stood there.
  void put(PartitionKey key, std::shared_ptr<Partition> partition);
  // True if there was one.
  bool erase(PartitionKey key);
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::size_t nbytes() const;

 private:
  struct Owned {
    std::string app;
    std::string user;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(PartitionKey key) const noexcept {
      const std::size_t app = std::hash<std::string_view>{}(key.app);
      return std::hash<std::string_view>{}(key.user) ^ (app * 0x9E3779B97F4A7C15ULL);
    }
    std::size_t operator()(const Owned& key) const noexcept {
      return (*this)(PartitionKey{key.app, key.user});
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      return a.app == b.app && a.user == b.user;
    }
  };

  const std::shared_ptr<const PartitionSpace> space_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Owned, std::shared_ptr<Partition>, Hash, Equal> partitions_;
};

}  // namespace vecall

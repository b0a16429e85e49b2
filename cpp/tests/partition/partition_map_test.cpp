// What a partition and its engine are looked up by, beside std::map, and the lock.

#include "partition/partition_map.hpp"

#include <doctest.h>

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "engine_support.hpp"
#include "partition/partition_snapshot.hpp"

namespace vecall::testing {

namespace {

using Names = std::pair<std::string, std::string>;

PartitionKey key_of(const Names& names) {
  return {names.first, names.second};
}

// Over 10,000 pairs of names; among them those that look alike when they are joined.
std::vector<Names> odd_names() {
  const std::string zero("\0", 1);
  std::set<Names> names = {{"a", "bc"},
                           {"ab", "c"},
                           {"abc", ""},
                           {"", "abc"},
                           {"a", zero},
                           {"a" + zero, ""},
                           {zero, zero},
                           {"", zero},
                           {zero + zero, ""},
                           {"a/b", "c"},
                           {"a", "b/c"},
                           {"\xC3\xA9", "e"},
                           {"e\xCC\x81", "e"},
                           {std::string(5000, 'x'), "y"},
                           {std::string(5001, 'x'), ""}};
  for (int i = 0; names.size() < 10'000; ++i) {
    const std::string number = std::to_string(i);
    names.emplace("app" + number, "user");
    names.emplace("app", "user" + number);
    names.emplace(number, number);
  }
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("the partition map finds what std::map finds, under the oddest names") {
  PartitionMap map(make_space(0));
  std::map<Names, Ref<Partition>> model;
  const auto names = odd_names();
  std::mt19937_64 random(1);
  const auto check = [&](const Names& of) {
    const auto expected = model.find(of);
    const auto found = map.find(key_of(of));
    REQUIRE(found.get() ==
            (expected == model.end() ? nullptr : expected->second.get()));
    if (found) REQUIRE(found->key() == key_of(of));
  };
  for (const Names& of : names) {
    model[of] = map.find_or_create(key_of(of));
    REQUIRE(map.find_or_create(key_of(of)).get() == model[of].get());
  }
  CHECK(map.size() == names.size());
  // First more is erased than made, then more is made than erased.
  for (int step = 0; step < 60'000; ++step) {
    const Names& of = names[random() % names.size()];
    const bool erase = random() % 10 < (step < 30'000 ? 8U : 2U);
    if (erase) {
      REQUIRE(map.erase(key_of(of)) == (model.erase(of) > 0));
    } else if (random() % 2 == 0) {
      model[of] = map.find_or_create(key_of(of));
    } else {
      model[of] = make_ref<Partition>(make_space(0), key_of(of));
      map.put(model[of]);
    }
    check(names[random() % names.size()]);
    REQUIRE(map.size() == model.size());
  }
  for (const Names& of : names) check(of);
  for (const Names& of : names) map.erase(key_of(of));
  CHECK(map.size() == 0);
}

TEST_CASE("users whose hashes are equal have partitions of their own") {
  std::map<std::uint32_t, std::string> users;  // by their hashes, some 100,000
  std::string user;
  do {
    user = "user" + std::to_string(users.size());
  } while (users.emplace(hash_of({"app", user}), user).second);
  const std::string other = users[hash_of({"app", user})];
  PartitionMap map(make_space(0));
  const auto made = map.find_or_create({"app", user});
  CHECK_FALSE(map.find({"app", other}));
  CHECK(map.find_or_create({"app", other}).get() != made.get());
  CHECK(map.find({"app", user}).get() == made.get());
}

TEST_CASE("a partition that was erased exists while a reference is held") {
  PartitionMap map(make_space(0));
  const auto held = map.find_or_create({"a", "b"});
  CHECK(map.erase({"a", "b"}));
  CHECK_FALSE(map.erase({"a", "b"}));
  CHECK_FALSE(map.find({"a", "b"}));
  CHECK(held->key() == PartitionKey{"a", "b"});
  CHECK(held.is_last());
}

TEST_CASE("a partition knows its ids as std::map does") {
  // Few ids are looked through, many have a table; both grow and shrink here. Ids that
  // differ in high bits alone meet in one place of a table.
  const auto space = make_space(0);
  for (const std::int64_t step :
       {std::int64_t{1}, std::int64_t{1} << 40, std::int64_t{0x1234'5678'9ABC}}) {
    CAPTURE(step);
    Partition partition(space);
    std::set<RowId> model;
    std::mt19937_64 random(2);
    for (int turn = 0; turn < 400; ++turn) {
      const std::size_t range = turn < 50 ? 300 : 6000;
      RowBatch batch;
      for (std::size_t i = random() % 80; i > 0; --i) {
        // Not every product fits, and what does not may wrap around.
        const auto number = random() % range - range / 2;
        batch.ids.push_back(
            static_cast<RowId>(number * static_cast<std::uint64_t>(step)));
      }
      if (random() % 100 < (turn < 250 ? 70U : 30U)) {
        partition.add(batch);
        model.insert(batch.ids.begin(), batch.ids.end());
      } else {
        std::size_t there = 0;
        for (const RowId id : batch.ids) there += model.erase(id);
        REQUIRE(partition.remove(batch.ids) == there);
      }
      REQUIRE(partition.size() == model.size());
      for (const RowId id : batch.ids) {
        REQUIRE(partition.contains(id) == (model.count(id) > 0));
      }
    }
    for (std::size_t i = 0; i < 6000; ++i) {
      const auto id = static_cast<RowId>((i - 3000) * static_cast<std::uint64_t>(step));
      REQUIRE(partition.contains(id) == (model.count(id) > 0));
    }
    const std::vector<RowId> all(model.begin(), model.end());
    REQUIRE(partition.remove(all) == all.size());
    CHECK(partition.size() == 0);
  }
}

TEST_CASE("a restored partition knows the ids of rows that stand far behind") {
  // So few that they are looked through, but in the third chunk of the rows.
  const auto space = make_space(0);
  Partition partition(space);
  RowBatch batch;
  for (RowId id = 0; id < 10'000; ++id) batch.ids.push_back(id);
  partition.add(batch);
  batch.ids.resize(9'900);
  partition.remove(batch.ids);
  const auto bytes = PartitionSnapshot::save(partition, {});
  const SnapshotReader reader(bytes);
  const auto restored = PartitionSnapshot::restore(reader, space);
  CHECK(restored->size() == 100);
  for (RowId id = 0; id < 10'000; ++id) {
    REQUIRE(restored->contains(id) == (id >= 9'900));
  }
  const RowId some[] = {9'900, 9'950, 9'999, 5};
  CHECK(restored->remove(some) == 3);
}

TEST_CASE("the shared mutex keeps writers alone and lets both sides go on") {
  SharedMutex mutex;
  constexpr int kTurns = 5'000;
  std::uint64_t guarded = 0;  // no atomic: the lock is all that guards it
  std::uint64_t beside = 0;
  std::atomic<int> inside_readers{0};
  std::atomic<int> inside_writers{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 3; ++writer) {
    threads.emplace_back([&, writer] {
      for (int i = 0; i < kTurns;) {
        // One of the writers only tries.
        if (writer == 0 && !mutex.try_lock()) {
          std::this_thread::yield();
          continue;
        }
        if (writer != 0) mutex.lock();
        if (inside_writers.fetch_add(1) != 0 || inside_readers.load() != 0) ++wrong;
        ++guarded;
        ++beside;
        inside_writers.fetch_sub(1);
        mutex.unlock();
        ++i;
      }
    });
  }
  for (int reader = 0; reader < 3; ++reader) {
    threads.emplace_back([&, reader] {
      for (int i = 0; i < kTurns;) {
        if (reader == 0 && !mutex.try_lock_shared()) {
          std::this_thread::yield();
          continue;
        }
        if (reader != 0) mutex.lock_shared();
        inside_readers.fetch_add(1);
        if (inside_writers.load() != 0 || guarded != beside) ++wrong;
        inside_readers.fetch_sub(1);
        mutex.unlock_shared();
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(guarded == 3 * kTurns);
  CHECK(mutex.try_lock());
  CHECK_FALSE(mutex.try_lock_shared());
  mutex.unlock();
  CHECK(mutex.try_lock_shared());
  CHECK(mutex.try_lock_shared());
  CHECK_FALSE(mutex.try_lock());
  mutex.unlock_shared();
  mutex.unlock_shared();
}

}  // namespace vecall::testing

// Ids to slots, beside std::unordered_map: few rows without a table, many with one.

#include "rows/id_map.hpp"

#include <doctest.h>

#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

#include "engine_support.hpp"

namespace vecall::testing {

namespace {

void check_all(const IdMap& map, const RowTable& rows,
               const std::unordered_map<RowId, Slot>& model) {
  for (const auto& [id, slot] : model) REQUIRE(map.find(id, rows) == slot);
  for (const RowId id : {RowId{-7}, RowId{1} << 40}) {
    if (!model.contains(id)) REQUIRE(map.find(id, rows) == kNoSlot);
  }
}

}  // namespace

TEST_CASE("an id leads to its live row, while rows come and go") {
  const auto space = make_space(0);
  // Up to 256 rows there is no table; more rows let it grow several times.
  for (const std::size_t most : {std::size_t{200}, std::size_t{3000}}) {
    CAPTURE(most);
    std::mt19937_64 random(6);
    RowTable rows(space->rows);
    IdMap map;
    std::unordered_map<RowId, Slot> model;
    std::vector<RowId> live;
    for (std::size_t step = 0; step < 4 * most; ++step) {
      const bool shrinks = model.size() >= most || random() % 4 == 0;
      if (shrinks && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const RowId gone = live.back();
        live.pop_back();
        const Slot slot = model.at(gone);
        map.erase(slot, rows);
        rows.release(slot);
        model.erase(gone);
        REQUIRE(map.find(gone, rows) == kNoSlot);
      } else {
        // Multiples of a power of two share the low bits of their places.
        const auto id = static_cast<RowId>(random() % 100'000) * 4096;
        if (model.contains(id)) continue;
        rows.reserve(1, false, false);
        map.reserve(rows.live() + 1, rows);
        const Slot slot = rows.allocate(id);
        map.insert(slot, rows);
        rows.publish(slot);
        model[id] = slot;
        live.push_back(id);
      }
      if (step % 500 == 0) check_all(map, rows, model);
    }
    check_all(map, rows, model);
    CHECK((map.nbytes() > 0) == (most > 256));
  }
}

TEST_CASE("ids at the ends of their range are found, and none in an empty map") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  IdMap map;
  CHECK(map.find(0, rows) == kNoSlot);
  rows.reserve(600, false, false);
  map.reserve(600, rows);
  CHECK(map.find(0, rows) == kNoSlot);
  for (const RowId id : {std::numeric_limits<RowId>::min(), RowId{-1}, RowId{0},
                         std::numeric_limits<RowId>::max()}) {
    const Slot slot = rows.allocate(id);
    map.insert(slot, rows);
    rows.publish(slot);
    CHECK(map.find(id, rows) == slot);
  }
}

}  // namespace vecall::testing

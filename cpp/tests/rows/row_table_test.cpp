// The columns of rows, beside std::map, while the table grows and slots are used again.

#include "rows/row_table.hpp"

#include <doctest.h>

#include <map>
#include <random>
#include <vector>

#include "engine_support.hpp"

namespace vecall::testing {

namespace {

struct Values {
  RowId id;
  Micros time;
  Micros expires;
  std::uint32_t session;
  double position;
  std::uint32_t author;
  std::uint16_t kind;
};

Slot put(RowTable& rows, const Values& values) {
  rows.reserve(1, true, values.expires != kMaxTime);
  const Slot slot = rows.allocate(values.id);
  rows.set_time(slot, values.time);
  rows.set_session(slot, values.session, values.position);
  rows.set_labels(slot, values.author, values.kind);
  rows.publish(slot);
  if (values.expires != kMaxTime) rows.set_expiry(slot, values.expires);
  return slot;
}

void check_rows(const RowTable& rows, const std::map<Slot, Values>& model) {
  REQUIRE(rows.live() == model.size());
  REQUIRE(rows.slots() == rows.live() + rows.free_slots());
  for (Slot slot = 0; slot < rows.slots(); ++slot) {
    REQUIRE(rows.is_live(slot) == model.contains(slot));
  }
  for (const auto& [slot, values] : model) {
    REQUIRE(rows.id(slot) == values.id);
    REQUIRE(rows.time(slot) == values.time);
    REQUIRE(rows.expires(slot) == values.expires);
    REQUIRE(rows.session(slot) == values.session);
    REQUIRE(rows.position(slot) == values.position);
    REQUIRE(rows.author(slot) == values.author);
    REQUIRE(rows.kind(slot) == values.kind);
    REQUIRE_FALSE(rows.has_vector(slot));
  }
}

}  // namespace

TEST_CASE("rows keep their columns while chunks are added and slots are used again") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  std::mt19937_64 random(8);
  std::map<Slot, Values> model;
  RowId next = 0;
  constexpr std::size_t kMost = 2 * kChunkRows + 100;
  while (rows.slots() < kMost) {
    if (!model.empty() && random() % 5 == 0) {
      const auto gone = model.begin();
      rows.release(gone->first);
      model.erase(gone);
      continue;
    }
    const Micros expires =
        random() % 3 == 0 ? static_cast<Micros>(random() % 1000) : kMaxTime;
    const Values values = {++next,
                           static_cast<Micros>(random() % 5000) - 2500,
                           expires,
                           static_cast<std::uint32_t>(random() % 9),
                           static_cast<double>(random() % 100) / 8.0,
                           static_cast<std::uint32_t>(random() % 9),
                           static_cast<std::uint16_t>(random() % 9)};
    const std::size_t free = rows.free_slots();
    const Slot slot = put(rows, values);
    REQUIRE(rows.free_slots() == (free == 0 ? 0 : free - 1));  // a free one comes first
    REQUIRE_FALSE(model.contains(slot));
    model[slot] = values;
    if (next % 1500 == 0) check_rows(rows, model);
  }
  check_rows(rows, model);
}

TEST_CASE("a table without rows has no slot, no chunk and nothing that expires") {
  const auto space = make_space(0);
  const RowTable rows(space->rows);
  CHECK(rows.slots() == 0);
  CHECK(rows.live() == 0);
  CHECK(rows.first_ids() == nullptr);
  CHECK_FALSE(rows.any_expires_by(kMaxTime));
}

TEST_CASE("rows without times get room for them when a row with them comes") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  rows.reserve(3, false, false);
  for (const RowId id : {7, 8, 9}) rows.publish(rows.allocate(id));
  CHECK_FALSE(rows.has_meta());
  CHECK(rows.times(0) == nullptr);
  const Slot added = put(rows, {10, 5, kMaxTime, 1, 2.0, 3, 4});
  CHECK(rows.has_meta());
  for (const Slot slot : {Slot{0}, Slot{1}, Slot{2}}) {
    CHECK(rows.id(slot) == static_cast<RowId>(7 + slot));
    CHECK(rows.time(slot) == 0);
    CHECK(rows.session(slot) == 0);
    CHECK(rows.next(slot) == kNoSlot);
  }
  CHECK(rows.time(added) == 5);
}

TEST_CASE("a row that is not published is no live row, and can be released") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  rows.reserve(1, false, false);
  const Slot slot = rows.allocate(1);
  CHECK_FALSE(rows.is_live(slot));
  CHECK(rows.live() == 0);
  rows.release(slot);
  CHECK(rows.free_slots() == 1);
  rows.reserve(1, false, false);
  CHECK(rows.allocate(2) == slot);
}

TEST_CASE("ties go to the newer row, then to the smaller id") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  const Slot old = put(rows, {1, 10, kMaxTime, 0, 0, 0, 0});
  const Slot newer = put(rows, {9, 20, kMaxTime, 0, 0, 0, 0});
  const Slot twin = put(rows, {5, 20, kMaxTime, 0, 0, 0, 0});
  CHECK(rows.precedes(newer, old));
  CHECK(rows.precedes(twin, newer));
  CHECK_FALSE(rows.precedes(newer, twin));
}

}  // namespace vecall::testing

// Which rows pass a filter, beside a walk over all of them.

#include "filter/row_selection.hpp"

#include <doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine_support.hpp"
#include "partition/session_order.hpp"

namespace vecall::testing {

namespace {

struct Row {
  RowId id;
  RowMeta meta;
  bool live = true;
};

bool passes(const Row& row, const Filter& filter) {
  const RowMeta& meta = row.meta;
  if (!row.live) return false;
  if (filter.session && *filter.session != meta.session) return false;
  if (filter.author && *filter.author != meta.author) return false;
  if (filter.kind && *filter.kind != meta.kind) return false;
  if (filter.only && std::find(filter.only->begin(), filter.only->end(), row.id) ==
                         filter.only->end()) {
    return false;
  }
  if (std::ranges::find(filter.without, row.id) != filter.without.end()) return false;
  if (meta.session != kNoSession &&
      std::ranges::find(filter.without_sessions, meta.session) !=
          filter.without_sessions.end()) {
    return false;
  }
  if (meta.time < filter.after) return false;
  if (filter.before != kMaxTime && meta.time >= filter.before) return false;
  return filter.now == kMinTime || meta.expires == kMaxTime ||
         filter.now < meta.expires;
}

// A partition's columns, filled by hand; `model` is by slot.
struct Table {
  Ref<const PartitionSpace> space = make_space(0);
  RowTable rows{space->rows};
  Labels labels;
  SessionOrder order;
  IdMap ids;
  std::vector<Row> model;

  void add(RowId id, const RowMeta& meta) {
    rows.reserve(1, true, meta.expires != kMaxTime);
    ids.reserve(rows.live() + 1, rows);
    const Slot slot = rows.allocate(id);
    const auto session = labels.sessions.acquire(meta.session);
    order.reserve(labels.sessions.numbers());
    rows.set_time(slot, meta.time);
    rows.set_session(slot, session, meta.position);
    rows.set_labels(slot, labels.authors.acquire(meta.author),
                    labels.kinds.acquire(meta.kind));
    ids.insert(slot, rows);
    rows.publish(slot);
    if (meta.expires != kMaxTime) rows.set_expiry(slot, meta.expires);
    order.add(slot, rows);
    model.push_back({id, meta});
    REQUIRE(model.size() == slot + std::size_t{1});
  }
  void remove(Slot slot) {
    order.remove(slot, rows);
    ids.erase(slot, rows);
    rows.release(slot);
    model[slot].live = false;
  }
  void select(const Filter& filter, RowSelection& selection) const {
    selection.select(filter, rows, &labels, order.last(), ids);
  }
};

}  // namespace

TEST_CASE("a filter lets pass what each of its conditions lets pass") {
  std::mt19937_64 random(14);
  Table table;
  for (RowId id = 0; id < 300; ++id) {
    RowMeta meta;
    meta.time = static_cast<Micros>(random() % 20);
    meta.session = random() % 4;  // 0 is none
    meta.position = static_cast<double>(id);
    meta.author = random() % 3;
    meta.kind = random() % 3;
    if (random() % 2 == 0) meta.expires = static_cast<Micros>(random() % 20);
    table.add(id * 7, meta);
  }
  for (Slot slot = 0; slot < 300; slot += 5) table.remove(slot);
  std::vector<RowId> only;
  for (RowId id = -3; id < 1000; id += 3) only.push_back(id);
  only.push_back(only.back());  // twice
  RowSelection selection;       // used again
  std::vector<RowId> without;
  for (RowId id = -2; id < 1000; id += 5) without.push_back(id);
  without.push_back(without.back());
  const std::vector<SessionKey> sessions{2, 9, kNoSession, 3, 2};
  for (int round = 0; round < 400; ++round) {
    Filter filter;
    if (random() % 3 == 0) filter.session = random() % 5;
    if (random() % 3 == 0) filter.author = random() % 4;
    if (random() % 3 == 0) filter.kind = random() % 4;
    if (random() % 3 == 0) filter.after = static_cast<Micros>(random() % 20);
    if (random() % 3 == 0) filter.before = static_cast<Micros>(random() % 20);
    if (random() % 3 == 0) filter.now = static_cast<Micros>(random() % 20);
    if (random() % 3 == 0) filter.only = only;
    if (random() % 3 == 0) filter.without = without;
    if (random() % 3 == 0) {
      filter.without_sessions = std::span(sessions).first(random() % 5 + 1);
    }
    table.select(filter, selection);
    std::vector<Slot> expected;
    for (Slot slot = 0; slot < 300; ++slot) {
      const bool expects = passes(table.model[slot], filter);
      REQUIRE(selection.contains(slot) == expects);
      if (expects) expected.push_back(slot);
    }
    std::vector<Slot> found;
    selection.for_each([&found](Slot slot) { found.push_back(slot); });
    REQUIRE(found == expected);
    REQUIRE(selection.count() == expected.size());
  }
}

TEST_CASE("no filter selects every live row without a look at each") {
  Table table;
  RowSelection selection;
  table.select({}, selection);
  CHECK(selection.selects_all());
  CHECK(selection.count() == 0);
  for (RowId id = 0; id < 3; ++id) table.add(id, {});
  table.remove(1);
  table.select({}, selection);
  CHECK(selection.selects_all());
  CHECK(selection.count() == 2);
  CHECK_FALSE(selection.contains(1));
  std::vector<Slot> found;
  selection.for_each([&found](Slot slot) { found.push_back(slot); });
  CHECK(found == std::vector<Slot>{0, 2});
}

TEST_CASE("rows without labels pass where no label is wanted") {
  Table table;
  table.add(1, {});
  RowSelection selection;
  Filter filter;
  filter.author = kNoLabel;
  selection.select(filter, table.rows, nullptr, table.order.last(), table.ids);
  CHECK(selection.count() == 1);
  filter.author = 5;
  selection.select(filter, table.rows, nullptr, table.order.last(), table.ids);
  CHECK(selection.count() == 0);
  filter = {};
  filter.only = std::span<const RowId>();
  table.select(filter, selection);
  CHECK_FALSE(selection.selects_all());
  CHECK(selection.count() == 0);
}

}  // namespace vecall::testing

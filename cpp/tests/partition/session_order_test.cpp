// The order of a session's rows, beside std::set.

#include "partition/session_order.hpp"

#include <doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "engine_support.hpp"

namespace vecall::testing {

namespace {

constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();

// Rows without a position first, then by position, then by id.
using Standing = std::tuple<bool, double, RowId, Slot>;

Standing standing(const RowTable& rows, Slot slot) {
  const double at = rows.position(slot);
  return {!std::isnan(at), std::isnan(at) ? 0.0 : at, rows.id(slot), slot};
}

void check_links(const SessionOrder& order, const RowTable& rows,
                 const std::set<Standing>& model) {
  Slot slot = order.last()[1];
  Slot after = kNoSlot;
  for (auto at = model.rbegin(); at != model.rend(); ++at) {
    REQUIRE(slot == std::get<Slot>(*at));
    REQUIRE(rows.next(slot) == after);
    after = slot;
    slot = rows.previous(slot);
  }
  REQUIRE(slot == kNoSlot);
}

}  // namespace

TEST_CASE(
    "a session whose rows come in any order is linked in order, also while rows go") {
  const auto space = make_space(0);
  std::mt19937_64 random(3);
  for (const int kind : {0, 1, 2}) {
    CAPTURE(kind);
    RowTable rows(space->rows);
    SessionOrder order;
    order.reserve(2);
    std::set<Standing> model;
    std::vector<Slot> live;
    RowId next = 0;
    for (int step = 0; step < 6000; ++step) {
      if (!live.empty() && random() % 10 < (step < 4000 ? 2U : 8U)) {
        std::swap(live[random() % live.size()], live.back());
        const Slot gone = live.back();
        live.pop_back();
        model.erase(standing(rows, gone));
        order.remove(gone, rows);
        rows.release(gone);
      } else {
        rows.reserve(1, true, false);
        const Slot slot = rows.allocate(++next);
        // Backwards; anywhere; mostly without a position.
        const double anywhere = static_cast<double>(random() % 500) / 4.0;
        const double at = kind == 0   ? static_cast<double>(-next)
                          : kind == 1 ? anywhere
                                      : (next % 9 == 0 ? anywhere : kNowhere);
        rows.set_session(slot, 1, at);
        rows.publish(slot);
        order.add(slot, rows);
        model.insert(standing(rows, slot));
        live.push_back(slot);
      }
      if (step % 500 == 0) check_links(order, rows, model);
    }
    check_links(order, rows, model);
    CHECK(order.nbytes() > 0);
    for (const Slot slot : live) {
      order.remove(slot, rows);
      rows.release(slot);
    }
    CHECK(order.last()[1] == kNoSlot);
    CHECK(order.nbytes() == order.last().capacity() * sizeof(Slot));
  }
}

TEST_CASE("neighbours are at most one position apart and have positions") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  SessionOrder order;
  order.reserve(2);
  rows.reserve(8, true, false);
  std::map<int, Slot> slots;
  for (const auto& [id, at] : std::map<int, double>{
           {1, 0.0}, {2, 0.25}, {3, 1.25}, {4, 2.5}, {5, kNowhere}, {6, kNowhere}}) {
    slots[id] = rows.allocate(id);
    rows.set_session(slots[id], 1, at);
    rows.publish(slots[id]);
    order.add(slots[id], rows);
  }
  CHECK(SessionOrder::next(slots[1], rows) == slots[2]);
  CHECK(SessionOrder::next(slots[2], rows) == slots[3]);
  CHECK(SessionOrder::next(slots[3], rows) == kNoSlot);
  CHECK(SessionOrder::previous(slots[4], rows) == kNoSlot);
  CHECK(SessionOrder::previous(slots[1], rows) == kNoSlot);
  CHECK(SessionOrder::next(slots[5], rows) == kNoSlot);
  CHECK(SessionOrder::next(slots[6], rows) == kNoSlot);
}

}  // namespace vecall::testing

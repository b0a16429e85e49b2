// The order of a long session, beside a sorted vector.

#include "partition/session_index.hpp"

#include <doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine_support.hpp"

namespace vecall::testing {

TEST_CASE("a row of a long session is told its neighbours, while rows come and go") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  std::mt19937_64 random(5);
  const auto take = [&](RowId id, double position) {
    rows.reserve(1, true, false);
    const Slot slot = rows.allocate(id);
    rows.set_session(slot, 1, position);
    rows.publish(slot);
    return slot;
  };
  const auto before = [&](Slot a, Slot b) { return stands_before(a, b, rows); };
  std::vector<Slot> model = {take(0, 0.0)};
  SessionIndex index(model[0], rows);
  RowId next = 0;
  for (int step = 0; step < 8'000; ++step) {
    // Up to several blocks of rows, then down to few.
    if (model.size() > 1 && random() % 10 < (step < 5'000 ? 2U : 7U)) {
      const auto at = static_cast<std::ptrdiff_t>(random() % model.size());
      const Slot gone = model[static_cast<std::size_t>(at)];
      index.erase(gone, rows);
      model.erase(model.begin() + at);
      rows.release(gone);
      continue;
    }
    const Slot slot = take(++next, static_cast<double>(random() % 300));
    const auto place = index.insert(slot, rows);
    const auto at = std::lower_bound(model.begin(), model.end(), slot, before);
    REQUIRE(place.before == (at == model.begin() ? kNoSlot : *(at - 1)));
    REQUIRE(place.after == (at == model.end() ? kNoSlot : *at));
    model.insert(at, slot);
  }
  CHECK(next > 2'000);
  CHECK(index.nbytes() >= model.size() * sizeof(Slot));
}

}  // namespace vecall::testing

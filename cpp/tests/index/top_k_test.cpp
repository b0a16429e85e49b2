// The best k of a stream, beside a sort of all of it.

#include "index/top_k.hpp"

#include <doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "engine_support.hpp"

namespace vecall::testing {

TEST_CASE("the best k are those of a sort, with many equal scores") {
  const auto space = make_space(0);
  RowTable rows(space->rows);
  rows.reserve(400, true, false);
  std::mt19937_64 random(10);
  for (RowId id = 0; id < 400; ++id) {
    const Slot slot = rows.allocate(400 - id);
    rows.set_time(slot, static_cast<Micros>(random() % 5));
    rows.publish(slot);
  }
  for (const std::size_t k : {1UL, 2UL, 17UL, 399UL, 400UL, 1000UL}) {
    CAPTURE(k);
    std::vector<Scored> all;
    for (Slot slot = 0; slot < 400; ++slot) {
      all.push_back({slot, static_cast<double>(random() % 8)});
    }
    std::vector<Scored> best = {{0, 99.0}};  // left over from before
    TopK top(best, k, rows);
    for (const Scored& row : all) {
      const bool wanted = top.wants(row.score);
      const std::vector<Scored> before = best;
      top.offer(row);
      if (!wanted) {  // what it does not want does not change it
        REQUIRE(std::equal(best.begin(), best.end(), before.begin(), before.end(),
                           [](const Scored& a, const Scored& b) {
                             return a.slot == b.slot && a.score == b.score;
                           }));
      }
    }
    top.finish();
    std::sort(all.begin(), all.end(), [&rows](const Scored& a, const Scored& b) {
      if (a.score != b.score) return a.score > b.score;
      if (rows.time(a.slot) != rows.time(b.slot)) {
        return rows.time(a.slot) > rows.time(b.slot);
      }
      return rows.id(a.slot) < rows.id(b.slot);
    });
    REQUIRE(best.size() == std::min(k, all.size()));
    for (std::size_t i = 0; i < best.size(); ++i) REQUIRE(best[i].slot == all[i].slot);
  }
}

TEST_CASE("nothing is refused while there is room") {
  const auto space = make_space(0);
  const RowTable rows(space->rows);
  std::vector<Scored> best;
  TopK top(best, 2, rows);
  CHECK(top.wants(-std::numeric_limits<double>::infinity()));
  top.offer({0, 0.5});
  CHECK(top.wants(-1e300));
  top.finish();
  CHECK(best.size() == 1);
}

}  // namespace vecall::testing

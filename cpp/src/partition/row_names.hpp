#pragma once

// What rows of events have and bare vectors have not: the numbers of their names, and
// which rows are neighbours in a session. Not thread-safe: the partition's lock guards
// it.

#include "partition/session_order.hpp"
#include "rows/labels.hpp"

namespace vecall {

struct RowNames {
  Labels labels;
  SessionOrder sessions;
};

}  // namespace vecall

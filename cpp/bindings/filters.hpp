#pragma once

// The filters that searches share, as Python gives them.

#include <optional>
#include <span>

#include "casters.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

// The filters of a call; None is no condition.
struct FilterArgs {
  std::optional<SessionKey> session;
  std::optional<LabelHash> author;
  std::optional<LabelHash> kind;
  std::optional<Micros> after;
  std::optional<Micros> before;
  std::optional<Micros> now;
  const IdView* only;               // null for None
  const IdView* without = nullptr;  // null for None
  std::span<const SessionKey> without_sessions = {};

  [[nodiscard]] Filter filter() const {
    Filter filter;
    filter.session = session;
    filter.author = author;
    filter.kind = kind;
    if (only != nullptr) filter.only = only->values;
    if (without != nullptr) filter.without = without->values;
    filter.without_sessions = without_sessions;
    filter.after = after.value_or(kMinTime);
    filter.before = before.value_or(kMaxTime);
    filter.now = now.value_or(kMinTime);
    return filter;
  }
};

}  // namespace vecall::bindings

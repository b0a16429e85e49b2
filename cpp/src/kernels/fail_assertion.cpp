#include <cstdio>
#include <cstdlib>

#include "vecall/assert.hpp"

namespace vecall {

void fail_assertion(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: vecall requires %s\n", file, line, condition);
  std::abort();
}

}  // namespace vecall

#include "vecall/build_info.hpp"

#include "kernels/dispatch.hpp"

namespace vecall {

BuildInfo build_info() {
  BuildInfo info;
#if defined(__clang__)
  info.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  info.compiler = "gcc " __VERSION__;
#else
  info.compiler = "unknown";
#endif
  for (const auto name : kernels::compiled()) info.compiled_isas.emplace_back(name);
  for (const auto name : kernels::runnable()) info.runnable_isas.emplace_back(name);
  info.active_isa = kernels::active().name;
  return info;
}

}  // namespace vecall

#pragma once

// Facts about this build and this machine.

#include <string>
#include <vector>

namespace vecall {

struct BuildInfo {
  std::string compiler;
  std::vector<std::string> compiled_isas;  // best first
  std::vector<std::string> runnable_isas;  // the part of them that this CPU can run
  std::string active_isa;                  // VECALL_ISA, or the best runnable one
};

// Throws ConfigError if VECALL_ISA names an instruction set that cannot run here.
BuildInfo build_info();

}  // namespace vecall

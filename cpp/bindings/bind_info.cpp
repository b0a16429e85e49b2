#include <pybind11/stl.h>

#include "bindings.hpp"
#include "vecall/build_info.hpp"

#ifndef VECALL_VERSION
#define VECALL_VERSION "unknown"
#endif

namespace vecall::bindings {

namespace py = pybind11;

void bind_info(py::module_& module) {
  module.attr("__version__") = VECALL_VERSION;
  module.def(
      "build_info",
      [] {
        const BuildInfo info = build_info();
        py::dict facts;
        facts["version"] = VECALL_VERSION;
        facts["compiler"] = info.compiler;
        facts["compiled_isas"] = info.compiled_isas;
        facts["runnable_isas"] = info.runnable_isas;
        facts["active_isa"] = info.active_isa;
        return py::typing::Dict<py::str, py::object>(facts);
      },
      R"(Facts about this build and this machine.

Returns:
    version, compiler, compiled_isas (best first), runnable_isas (what this CPU can run)
    and active_isa (the environment variable VECALL_ISA, or the best runnable one).

Raises:
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)");
}

}  // namespace vecall::bindings

#include "bindings.hpp"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The C++ engine of vecall: vectors, words, partitions.";
  vecall::bindings::bind_errors(module);
  vecall::bindings::bind_info(module);
  vecall::bindings::bind_analysis(module);
  vecall::bindings::bind_confidence(module);
  vecall::bindings::bind_index(module);
  vecall::bindings::bind_linear_map(module);
  vecall::bindings::bind_ranking(module);
  vecall::bindings::bind_encoder(module);
  vecall::bindings::bind_engine(module);
  vecall::bindings::bind_entries(module);
  vecall::bindings::bind_process_end(module);
  vecall::bindings::bind_rows(module);
  vecall::bindings::bind_testing(module);
}

#pragma once

// One function an area; module.cpp calls each once.

#include <pybind11/pybind11.h>

namespace vecall::bindings {

void bind_analysis(pybind11::module_& module);
void bind_confidence(pybind11::module_& module);
void bind_entries(pybind11::module_& module);
void bind_errors(pybind11::module_& module);
void bind_info(pybind11::module_& module);
void bind_index(pybind11::module_& module);
void bind_linear_map(pybind11::module_& module);
void bind_ranking(pybind11::module_& module);
void bind_encoder(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_process_end(pybind11::module_& module);
void bind_rows(pybind11::module_& module);
void bind_testing(pybind11::module_& module);

}  // namespace vecall::bindings

#pragma once

#include <pybind11/pybind11.h>

#include "engine/engine.hpp"

namespace vecall::bindings {

// Adds Engine.recall.
void bind_recall(pybind11::class_<Engine>& bound);

}  // namespace vecall::bindings

#pragma once

// The binding of Engine.recall, which bind_engine.cpp adds to the class.

#include <pybind11/pybind11.h>

#include "vecall/engine.hpp"

namespace vecall::bindings {

// Adds Engine.recall.
void bind_recall(pybind11::class_<Engine>& bound);

}  // namespace vecall::bindings

#pragma once

// The binding of Engine.recall, which bind_engine.cpp adds to the class.

#include <pybind11/pybind11.h>

#include <vector>

#include "instances.hpp"
#include "vecall/engine.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

// What the engine found, as it is: values that are not read cost nothing.
struct Found {
  std::vector<RecallHit> hits;
};

// Adds Engine.recall, and the class Found.
void bind_recall(pybind11::module_& module, pybind11::class_<Engine>& bound);

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::Found>
    : MadeInstanceCaster<vecall::bindings::Found> {};

}  // namespace pybind11::detail

#pragma once

// An Encoder, an Engine, an Index, a LinearMap or a Ranking as an argument. Python can
// make an object without its __init__: by object.__new__, or in a subclass that does
// not call it yet. pybind11 would hand out memory that no constructor has filled, so
// such an object is refused here.

#include <pybind11/pybind11.h>

#include <string>

#include "vecall/engine.hpp"
#include "vecall/errors.hpp"
#include "vecall/index.hpp"
#include "vecall/linear_map.hpp"
#include "vecall/types.hpp"

namespace pybind11::detail {

// Throws if `source` is of type T and __init__ was not called; returns whether it is.
template <class T>
bool check_made(handle source, const char* argument) {
  const handle type = get_type_handle(typeid(T), false);
  if (!type || !isinstance(source, type)) return false;
  auto* made = reinterpret_cast<instance*>(source.ptr());
  for (const auto& part : values_and_holders(made)) {
    if (!part.holder_constructed()) {
      throw vecall::InvalidTypeError(std::string(argument) +
                                     ": __init__ was not called");
    }
  }
  return true;
}

template <class T>
struct MadeInstanceCaster : type_caster_base<T> {
  bool load(handle source, bool convert) {
    check_made<T>(source, "self");
    return type_caster_base<T>::load(source, convert);
  }
};

template <>
struct type_caster<vecall::Engine> : MadeInstanceCaster<vecall::Engine> {};
template <>
struct type_caster<vecall::Index> : MadeInstanceCaster<vecall::Index> {};
template <>
struct type_caster<vecall::LinearMap> : MadeInstanceCaster<vecall::LinearMap> {};
template <>
struct type_caster<vecall::Ranking> : type_caster_base<vecall::Ranking> {
  bool load(handle source, bool convert) {
    if (!check_made<vecall::Ranking>(source, "ranking")) {
      throw vecall::InvalidTypeError("ranking: expected a Ranking of the engine");
    }
    return type_caster_base<vecall::Ranking>::load(source, convert);
  }
};

}  // namespace pybind11::detail

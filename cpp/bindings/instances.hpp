#pragma once

// An Engine or an Index as an argument. Python can make an object without its __init__:
// by object.__new__, or in a subclass that does not call it yet. pybind11 would hand
// out memory that no constructor has filled, so such an object is refused here.

#include <pybind11/pybind11.h>

#include "vecall/engine.hpp"
#include "vecall/errors.hpp"
#include "vecall/index.hpp"

namespace pybind11::detail {

template <class T>
struct MadeInstanceCaster : type_caster_base<T> {
  bool load(handle source, bool convert) {
    const handle type = get_type_handle(typeid(T), false);
    if (type && isinstance(source, type)) {
      auto* made = reinterpret_cast<instance*>(source.ptr());
      for (const auto& part : values_and_holders(made)) {
        if (!part.holder_constructed()) {
          throw vecall::InvalidTypeError("self: __init__ was not called");
        }
      }
    }
    return type_caster_base<T>::load(source, convert);
  }
};

template <>
struct type_caster<vecall::Engine> : MadeInstanceCaster<vecall::Engine> {};
template <>
struct type_caster<vecall::Index> : MadeInstanceCaster<vecall::Index> {};

}  // namespace pybind11::detail

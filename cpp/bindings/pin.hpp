#pragma once

// numpy's resize(refcheck=False) frees the memory of an array that a call reads, if
// another thread or a callback asks for it meanwhile. It looks neither at references
// nor at exported buffers then, but it refuses where a weak reference exists.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace vecall::bindings {

namespace py = pybind11;

// As long as the result is referenced, the memory of the array stays where it is.
inline py::object pin(const py::array& array) {
  py::array owner = array;
  for (py::object base = owner.base(); base && py::isinstance<py::array>(base);
       base = owner.base()) {
    owner = py::reinterpret_borrow<py::array>(base);
  }
  PyObject* weak = PyWeakref_NewRef(owner.ptr(), nullptr);
  if (weak == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(weak);
}

}  // namespace vecall::bindings

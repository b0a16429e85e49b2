#include <exception>

#include "bindings.hpp"
#include "vecall/errors.hpp"

namespace vecall::bindings {

namespace py = pybind11;

namespace {

void raise(const char* name, const Error& error) {
  const py::object type = py::module_::import("vecall.errors").attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

// Leaves first: the first match wins.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const InvalidTypeError& error) {
    raise("InvalidTypeError", error);
  } catch (const DimensionError& error) {
    raise("DimensionError", error);
  } catch (const LimitExceededError& error) {
    raise("LimitExceededError", error);
  } catch (const InvalidArgumentError& error) {
    raise("InvalidArgumentError", error);
  } catch (const ConfigError& error) {
    raise("ConfigError", error);
  } catch (const ReadOnlyError& error) {
    raise("ReadOnlyError", error);
  } catch (const CorruptDataError& error) {
    raise("CorruptFileError", error);
  } catch (const IncompatibleDataError& error) {
    raise("IncompatibleFileError", error);
  } catch (const FileFullError& error) {
    raise("StorageFullError", error);
  } catch (const MissingFileError& error) {
    raise("MissingFileError", error);
  } catch (const FileError& error) {
    raise("StorageError", error);
  } catch (const Error& error) {
    raise("VecallError", error);
  }
}

}  // namespace

void bind_errors(py::module_&) {
  py::register_local_exception_translator(translate);
}

}  // namespace vecall::bindings

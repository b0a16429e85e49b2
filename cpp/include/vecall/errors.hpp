#pragma once

// The errors that the core throws. Each leaf has a namesake in vecall/errors.py, to
// which the bindings translate it. Messages say what was wrong and what is allowed;
// they never contain ids, text or vector values of the caller.

#include <stdexcept>
#include <string>

namespace vecall {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A value outside what is allowed: NaN, a zero vector, k of 0.
class InvalidArgumentError : public Error {
 public:
  using Error::Error;
};

// A value of the wrong type: another dtype, a list where an array belongs.
class InvalidTypeError : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};

// A vector of another length than the index holds.
class DimensionError : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};

// More than a documented limit.
class LimitExceededError : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};

// A setting of the process that cannot be honoured, such as VECALL_ISA.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// A change of what was opened to be read only.
class ReadOnlyError : public Error {
 public:
  using Error::Error;
};

// Bytes that fail their checks.
class CorruptDataError : public Error {
 public:
  using Error::Error;
};

// Bytes of something else, or of another version.
class IncompatibleDataError : public Error {
 public:
  using Error::Error;
};

// A file could not be read or written.
class FileError : public Error {
 public:
  using Error::Error;
};

// Nothing has the name of the file.
class MissingFileError : public FileError {
 public:
  using FileError::FileError;
};

// No room was left for a file.
class FileFullError : public FileError {
 public:
  using FileError::FileError;
};

}  // namespace vecall

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "casters.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/errors.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

void append_text(py::handle text, std::string& out) {
  if (PyUnicode_IS_COMPACT_ASCII(text.ptr())) {
    out.append(static_cast<const char*>(PyUnicode_DATA(text.ptr())),
               static_cast<std::size_t>(PyUnicode_GET_LENGTH(text.ptr())));
    return;
  }
  // PyUnicode_AsUTF8 would keep the bytes as long as the text.
  const auto bytes =
      py::reinterpret_steal<py::object>(PyUnicode_AsUTF8String(text.ptr()));
  if (!bytes) throw py::error_already_set();
  out.append(PyBytes_AS_STRING(bytes.ptr()),
             static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

// Up to six decimals of a number, if no shorter or other spelling is as near: those
// below 2**32 are further apart than the doubles there. Appends nothing otherwise.
bool append_short_real(double value, std::string& out) {
  constexpr double kEnd = 4'294'967'296.0;
  constexpr double kLeast = 1e-4;  // below it, Python writes an exponent
  constexpr std::int64_t kScale = 1'000'000;
  if (!(value >= kLeast && value < kEnd)) return false;
  const std::int64_t scaled = std::llround(value * static_cast<double>(kScale));
  if (static_cast<double>(scaled) / static_cast<double>(kScale) != value) return false;
  std::array<char, 24> digits{};
  char* end =
      std::to_chars(digits.data(), digits.data() + digits.size(), scaled / kScale).ptr;
  *end++ = '.';
  std::int64_t rest = scaled % kScale;
  std::int64_t place = kScale / 10;
  do {
    *end++ = static_cast<char>('0' + rest / place);
    rest %= place;
    place /= 10;
  } while (rest != 0);
  out.append(digits.data(), end);
  return true;
}

// As Python's repr of it.
void append_real(double value, std::string& out) {
  if (append_short_real(value, out)) return;
  // The memories of a session were stored at the same time.
  thread_local std::optional<std::uint64_t> last;
  thread_local std::string last_spelled;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  if (last != bits) {
    char* const spelled =
        PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
    if (spelled == nullptr) throw py::error_already_set();
    last_spelled = spelled;
    last = bits;
    PyMem_Free(spelled);
  }
  out += last_spelled;
}

// Whether it fits 64 bits.
bool append_integer(py::handle value, std::string& out) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) return false;
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
  return true;
}

struct ValuesArg {
  py::list values;

  static constexpr auto kHint = const_name("list[str | float | None]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) throw InvalidTypeError("values: expected a list");
    values = py::reinterpret_borrow<py::list>(source);
  }
};

// False for a value of another type.
bool append_value(py::handle value, std::string& out) {
  if (PyUnicode_CheckExact(value.ptr())) {
    append_text(value, out);
  } else if (PyFloat_CheckExact(value.ptr())) {
    append_real(PyFloat_AS_DOUBLE(value.ptr()), out);
  } else if (PyLong_CheckExact(value.ptr())) {
    return append_integer(value, out);
  } else {
    return value.is_none();
  }
  return true;
}

std::optional<py::bytes> joined_values(const ValuesArg& given) {
  std::string out;
  bool is_first = true;
  for (const py::handle value : given.values) {
    if (!is_first) out.push_back('\0');
    is_first = false;
    if (!append_value(value, out)) return std::nullopt;
  }
  return py::bytes(out);
}

// The columns of a row, in the order of `vecall.store.Row`.
enum Column : std::uint8_t {
  kRid,
  kId,
  kSession,
  kEvent,
  kPos,
  kTs,
  kCreatedAt,
  kExpiresAt,
  kAuthor,
  kKind,
  kSource,
  kTrust,
  kText,
  kContent,
  kMeta,
  kImportance,
  kUses,
  kLastUsed,
  kValidUntil,
  kSupersedes,
  kUpdatedAt,
  kColumns,
};

// What follows them when rows are read: the vector, the number of its model, and the
// checksum.
constexpr std::size_t kVector = kColumns;
constexpr std::size_t kReadColumns = kVector + 3;

// The values of a tuple, which outlives them.
class Values {
 public:
  explicit Values(py::handle tuple) : tuple_(tuple) {}

  [[nodiscard]] py::handle operator[](std::size_t column) const {
    return PyTuple_GET_ITEM(tuple_.ptr(), static_cast<py::ssize_t>(column));
  }
  [[nodiscard]] bool has(std::size_t column) const {
    return !(*this)[column].is_none();
  }

 private:
  py::handle tuple_;
};

// Tuples of at least so many values, in a list that another thread may change.
std::vector<py::tuple> tuples_of(py::handle source, std::size_t least, Refusal refuse) {
  if (!PyList_Check(source.ptr())) refuse();
  std::vector<py::tuple> tuples;
  for (const py::handle item : py::reinterpret_borrow<py::list>(source)) {
    if (!PyTuple_Check(item.ptr())) refuse();
    tuples.push_back(py::reinterpret_borrow<py::tuple>(item));
    if (tuples.back().size() < least) refuse();
  }
  return tuples;
}

// Rows as they are read.
struct ReadRowsArg {
  std::vector<py::tuple> rows;

  static constexpr auto kHint = const_name("list[tuple[typing.Any, ...]]");
  void load(py::handle source) {
    rows = tuples_of(source, kReadColumns, [] {
      throw InvalidTypeError("rows: expected a list of tuples of 24 values");
    });
  }
};

// A class of tuples.
struct TupleTypeArg {
  py::object type;

  static constexpr auto kHint = const_name("type[typing.Any]");
  void load(py::handle source) {
    if (!PyType_Check(source.ptr()) ||
        PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(source.ptr()),
                         &PyTuple_Type) == 0) {
      throw InvalidTypeError("expected a class of tuples");
    }
    type = py::reinterpret_borrow<py::object>(source);
  }

  [[nodiscard]] py::object of(const py::object& values) const {
    const py::tuple arguments = py::make_tuple(values);
    return checked(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                       arguments.ptr(), nullptr));
  }

  static py::object checked(PyObject* made) {
    if (made == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(made);
  }
};

// Whether a value is None or a number of the years 1 to 9999, as all numbers of a row
// are.
bool is_time_or_none(py::handle value) {
  constexpr double kEarliest = -62'135'596'800.0;
  constexpr double kLatest = 253'402'300'799.0;
  if (value.is_none()) return true;
  double number = 0.0;
  if (PyFloat_CheckExact(value.ptr())) {
    number = PyFloat_AS_DOUBLE(value.ptr());
  } else if (PyLong_CheckExact(value.ptr())) {
    number = PyLong_AsDouble(value.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
  } else {
    return false;
  }
  return kEarliest <= number && number <= kLatest;
}

bool is_text_or_none(py::handle value) {
  return value.is_none() || PyUnicode_CheckExact(value.ptr()) != 0;
}

bool is_count_or_none(py::handle value) {
  if (value.is_none()) return true;
  if (PyLong_CheckExact(value.ptr()) == 0) return false;
  int overflow = 0;
  const long long count = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  return overflow == 0 && count >= 0;
}

// Whether vecall can have written these values.
bool are_allowed(const Values& row) {
  for (const Column column : {kPos, kTs, kCreatedAt, kExpiresAt, kImportance, kLastUsed,
                              kValidUntil, kUpdatedAt}) {
    if (!is_time_or_none(row[column])) return false;
  }
  for (const Column column : {kId, kSession, kEvent, kAuthor, kKind, kSource, kTrust,
                              kText, kContent, kMeta, kSupersedes}) {
    if (!is_text_or_none(row[column])) return false;
  }
  if (PyLong_CheckExact(row[kRid].ptr()) == 0 || !row.has(kId) || !row.has(kText) ||
      !row.has(kCreatedAt) || !is_count_or_none(row[kUses])) {
    return false;
  }
  if (!row.has(kImportance)) return true;
  const double share = PyFloat_AsDouble(row[kImportance].ptr());
  return 0.0 <= share && share <= 1.0;
}

// Appends what the checksum of a row is of, besides its vector: all columns but
// `updated_at`; the later ones if they have a value.
bool append_summed(const Values& row, std::string& out) {
  for (std::size_t column = kRid; column < kUses; ++column) {
    if (column != kRid) out.push_back('\0');
    if (!append_value(row[column], out)) return false;
  }
  const auto append_pair = [&](Column first, Column second) {
    out.push_back('\0');
    if (!append_value(row[first], out)) return false;
    out.push_back('\0');
    return append_value(row[second], out);
  };
  if ((row.has(kUses) || row.has(kLastUsed)) && !append_pair(kUses, kLastUsed)) {
    return false;
  }
  if (!row.has(kValidUntil) && !row.has(kSupersedes)) return true;
  out.append(std::string_view("\0valid", 6));
  return append_pair(kValidUntil, kSupersedes);
}

// Finds rows that are surely whole.
class RowCheck {
 public:
  RowCheck() : crc32_(py::module_::import("zlib").attr("crc32")) {}

  // The checksum of a row with its vector; null where a value is not allowed.
  py::object crc_of(const Values& row, py::handle vector) {
    if (!vector.is_none() && PyBytes_Check(vector.ptr()) == 0) return {};
    summed_.clear();
    try {
      if (!are_allowed(row) || !append_summed(row, summed_)) return {};
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_UnicodeEncodeError)) throw;
      return {};  // a lone surrogate
    }
    py::object crc = crc32_(py::bytes(summed_));
    return vector.is_none() ? crc : crc32_(vector, crc);
  }

  // Whether a row that was read has its checksum, and allowed values alone.
  bool is_whole(const Values& row) {
    const py::object crc = crc_of(row, row[kVector]);
    const py::handle wanted = row[kVector + 2];
    return crc && PyLong_CheckExact(wanted.ptr()) != 0 && crc.equal(wanted);
  }

 private:
  py::object crc32_;
  std::string summed_;
};

// The values of a row.
struct RowArg {
  py::tuple row;

  static constexpr auto kHint = const_name("tuple[typing.Any, ...]");
  void load(py::handle source) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) < kColumns) {
      throw InvalidTypeError("row: expected a tuple of 21 values");
    }
    row = py::reinterpret_borrow<py::tuple>(source);
  }
};

std::optional<py::int_> row_checksum(const RowArg& given, const py::object& vector) {
  const py::object crc = RowCheck().crc_of(Values(given.row), vector);
  if (!crc) return std::nullopt;
  return py::int_(crc);
}

py::typing::List<py::object> whole_rows(const ReadRowsArg& given,
                                        const TupleTypeArg& row_type,
                                        const TupleTypeArg& stored_type) {
  RowCheck check;
  py::list found;
  for (const py::tuple& values : given.rows) {
    const Values row(values);
    if (!check.is_whole(row)) {
      found.append(py::none());
      continue;
    }
    const py::object own =
        TupleTypeArg::checked(PyTuple_GetSlice(values.ptr(), 0, kColumns));
    found.append(stored_type.of(
        py::make_tuple(row_type.of(own), row[kVector], row[kVector + 1])));
  }
  return found;
}

// Rows, each with its vector and the number of the model of this.
struct StoredRowsArg {
  std::vector<py::tuple> entries;

  static constexpr auto kHint =
      const_name("list[tuple[tuple[typing.Any, ...], bytes | None, int | None]]");
  void load(py::handle source) {
    entries = tuples_of(source, 3, &refuse);
    for (const py::tuple& entry : entries) {
      const Values values(entry);
      if (!PyTuple_Check(values[0].ptr()) ||
          PyTuple_GET_SIZE(values[0].ptr()) < kColumns ||
          (values.has(1) && PyBytes_Check(values[1].ptr()) == 0)) {
        refuse();
      }
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("stored: expected a list of (row, vector, model)");
  }
};

double number_of(py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return number;
}

// As `vecall.clock.to_micros`; half a microsecond goes to the even one.
std::int64_t micros_of(py::handle seconds) {
  constexpr double kEarliest = -62'135'596'800.0;
  constexpr double kLatest = 253'402'300'799.0;
  const double number = number_of(seconds);
  if (std::isnan(number)) throw InvalidArgumentError("stored: a time is no number");
  return std::llrint(std::clamp(number, kEarliest, kLatest) * 1e6);
}

using MemoryText = py::typing::Tuple<py::str, py::typing::Optional<py::str>,
                                     py::typing::Optional<py::float_>>;
using NameNumbers = py::typing::Dict<py::str, py::int_>;
using RowColumns =
    py::typing::Tuple<py::typing::List<MemoryText>, Array<std::int64_t>,
                      Array<std::int64_t>, Array<std::int64_t>, Array<std::uint64_t>,
                      Array<double>, std::optional<Array<float>>,
                      std::optional<Array<std::uint8_t>>, Array<std::uint64_t>,
                      Array<std::uint64_t>>;

RowColumns row_columns(const StoredRowsArg& given, const NameNumbers& names, Dim dim,
                       const py::object& model) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  constexpr std::uint64_t kUnknownSession = 1;  // of turns without a session
  const std::size_t size = given.entries.size();
  const auto count = static_cast<py::ssize_t>(size);
  py::list memories;
  Array<std::int64_t> ids(count);
  Array<std::int64_t> times(count);
  Array<std::int64_t> ends(count);
  Array<std::uint64_t> sessions(count);
  Array<double> positions(count);
  Array<std::uint64_t> authors(count);
  Array<std::uint64_t> kinds(count);
  std::optional<Array<float>> vectors;
  std::optional<Array<std::uint8_t>> has_vector;
  if (dim.value != 0) {
    vectors.emplace(
        std::vector<py::ssize_t>{count, static_cast<py::ssize_t>(dim.value)});
    has_vector.emplace(count);
  }
  const auto number_of_name = [&](py::handle name) {
    if (name.is_none()) return std::uint64_t{0};
    const py::object number =
        TupleTypeArg::checked(PyObject_GetItem(names.ptr(), name.ptr()));
    return number.cast<std::uint64_t>();
  };
  for (std::size_t i = 0; i < size; ++i) {
    const Values entry(given.entries[i]);
    const Values row(entry[0]);
    memories.append(py::make_tuple(row[kText], row[kAuthor], row[kTs]));
    ids.mutable_data()[i] = row[kRid].cast<std::int64_t>();
    times.mutable_data()[i] = micros_of(row[row.has(kTs) ? kTs : kCreatedAt]);
    std::int64_t end = kNever;
    for (const Column column : {kExpiresAt, kValidUntil}) {
      if (row.has(column)) end = std::min(end, micros_of(row[column]));
    }
    ends.mutable_data()[i] = end;
    const std::uint64_t session = number_of_name(row[kSession]);
    const bool is_turn = row.has(kPos);
    sessions.mutable_data()[i] = session == 0 && is_turn ? kUnknownSession : session;
    positions.mutable_data()[i] =
        is_turn ? number_of(row[kPos]) : std::numeric_limits<double>::quiet_NaN();
    authors.mutable_data()[i] = number_of_name(row[kAuthor]);
    kinds.mutable_data()[i] = number_of_name(row[kKind]);
    if (!vectors) continue;
    // Rows that another process migrated to another model are found by words.
    const std::size_t bytes = sizeof(float) * dim.value;
    float* const vector = vectors->mutable_data() + i * dim.value;
    const bool is_used =
        entry.has(1) && entry[2].equal(model) &&
        PyBytes_GET_SIZE(entry[1].ptr()) == static_cast<py::ssize_t>(bytes);
    has_vector->mutable_data()[i] = is_used ? 1 : 0;
    if (is_used) {
      std::memcpy(vector, PyBytes_AS_STRING(entry[1].ptr()), bytes);
    } else {
      std::fill_n(vector, dim.value, 0.0F);
    }
  }
  return py::make_tuple(memories, ids, times, ends, sessions, positions, vectors,
                        has_vector, authors, kinds);
}

}  // namespace

void bind_rows(py::module_& module) {
  def_strict(module, "joined_values", &joined_values, "values"_a,
             R"(Joins the texts of a row's values by null characters.

Args:
    values: Each a str, a float, an int or None, which has no text.

Returns:
    The texts in UTF-8, numbers as `repr` spells them. None if a value is of another
    type or an int has more than 64 bits.

Raises:
    UnicodeEncodeError: A text has a lone surrogate.)");
  def_strict(module, "row_checksum", &row_checksum, "row"_a, "vector"_a,
             R"(Computes the CRC-32 of a row of which every value is allowed.

Args:
    row: Its values.
    vector: Its vector as bytes, or None.

Returns:
    The checksum; None if a value is of a type or out of a range that vecall never writes.

Raises:
    InvalidTypeError: No tuple of values.)");
  def_strict(module, "whole_rows", &whole_rows, "rows"_a, "row_type"_a, "stored_type"_a,
             R"(Makes rows of what was read, if they are surely whole.

Args:
    rows: The values of each, then its vector, the number of the model of this, and the
        checksum.
    row_type: A class of tuples with the values of a row.
    stored_type: A class of tuples (row, vector, model).

Returns:
    For each a `stored_type`; None where a value is not allowed, or the checksum is not
    the one that vecall writes today.

Raises:
    InvalidTypeError: No list of tuples, or a class of something else.)");
  def_strict(module, "row_columns", &row_columns, "stored"_a, "names"_a, "dim"_a,
             "model"_a, R"(Makes the columns of `Engine.add_rows`.

Args:
    stored: (row, vector, model) of each.
    names: The number of each name of a session, author or kind.
    dim: Length of the vectors; 0 for none.
    model: The number of the model whose vectors are used.

Returns:
    (text, author, time) of each for `TextAnalyzer.memory_terms`; ids, times, expires,
    sessions, positions; vectors and has_vector, None with `dim` 0; authors, kinds.

Raises:
    InvalidTypeError: No list of (row, vector, model).
    InvalidArgumentError: A time is no number.)");
}

}  // namespace vecall::bindings

// Python.h must come first.
#include <pybind11/pybind11.h>
// What pybind11 does not include: the offsets of slots.
#include <pybind11/stl.h>
#include <pybind11/typing.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "bind_recall.hpp"
#include "bindings.hpp"
#include "casters.hpp"
#include "confidence.hpp"
#include "instances.hpp"
#include "strict.hpp"
#include "vecall/errors.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

// The values of a `vecall.store.Row` that an entry has, by their places.
enum Column : Py_ssize_t {
  kId = 1,
  kSession = 2,
  kEvent = 3,
  kTimestamp = 5,
  kCreatedAt = 6,
  kAuthor = 8,
  kKind = 9,
  kSource = 10,
  kTrust = 11,
  kText = 12,
  kContent = 13,
  kMetadata = 14,
  kPrior = 15,
  kUses = 16,
  kValidUntil = 18,
  kSupersedes = 19,
  kUpdatedAt = 20,
  kColumns = 21,
};

constexpr std::array kFields = {
    "content",    "id",         "author",      "timestamp",  "session_id",
    "event_id",   "kind",       "source",      "trust",      "custom_metadata",
    "importance", "score",      "similarity",  "confidence", "explanation",
    "created_at", "updated_at", "valid_until", "supersedes", "scope"};

// Tuples of a list, valid for the call.
template <Name kName, Py_ssize_t kSize>
struct Tuples {
  py::list list;

  static constexpr auto kHint = const_name("list[tuple[typing.Any, ...]]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) refuse();
    list = py::reinterpret_borrow<py::list>(source);
  }
  [[nodiscard]] py::object at(std::size_t place) const {
    auto found = py::reinterpret_borrow<py::object>(
        PyList_GetItem(list.ptr(), static_cast<Py_ssize_t>(place)));
    if (!found) throw py::error_already_set();
    if (!PyTuple_Check(found.ptr()) || PyTuple_GET_SIZE(found.ptr()) != kSize) refuse();
    return found;
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError(said_of<kName>("expected a list of tuples"));
  }
};

// The scores of an entry; similarity is NaN without one.
struct Scores {
  py::object score, similarity, confidence, explanation;
};

struct Entries {
  py::list list;

  static constexpr auto kHint = const_name("list[typing.Any]");
  [[nodiscard]] py::handle as_python() const { return list.inc_ref(); }
};

// Any object; a class or a function where it is called.
struct Given {
  py::object object;

  static constexpr auto kHint = const_name("typing.Any");
  void load(py::handle source) { object = py::reinterpret_borrow<py::object>(source); }
};

using Rows = Tuples<"rows", kColumns>;

struct KnownRows : Rows {
  static constexpr auto kHint = const_name("list[tuple[typing.Any, ...] | None]");
};

using Answer = py::typing::Tuple<py::typing::List<py::object>, py::float_, py::float_>;

constexpr std::size_t kFirst = 5;  // hits that tell whether a query asks for something

// A frozen dataclass sets its fields by name, one call each: half of the time of an
// entry. Here each goes into its slot.
class EntryMaker {
 public:
  EntryMaker(const Given& made, const Given& parsed, const Given& seconds,
             const Given& weight, const Given& checked, const Given& day,
             const Given& prior)
      : made_(made.object),
        parsed_(parsed.object),
        seconds_(seconds.object),
        weight_(weight.object),
        checked_(checked.object),
        day_(day.object),
        prior_(prior.object) {
    if (!PyType_Check(made_.ptr())) refuse();
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      const py::object slot = py::getattr(made_, kFields[i], py::none());
      if (!Py_IS_TYPE(slot.ptr(), &PyMemberDescr_Type)) refuse();
      const auto* const found = reinterpret_cast<PyMemberDescrObject*>(slot.ptr());
      if (found->d_member->type != T_OBJECT_EX) refuse();
      offsets_[i] = found->d_member->offset;
    }
  }

  [[nodiscard]] Entries make(const Rows& rows, const Tuples<"scores", 4>& scores,
                             const Given& now, const Given& scope) const {
    py::list entries;
    for (std::size_t i = 0; i < rows.list.size(); ++i) {
      const py::object given = scores.at(i);
      const auto own = [&given](Py_ssize_t place) {
        return py::reinterpret_borrow<py::object>(value(given, place));
      };
      entries.append(entry(rows.at(i), {own(0), own(1), own(2), own(3)}, now.object,
                           scope.object));
    }
    return {entries};
  }

  [[nodiscard]] std::optional<Answer> answer(const Found& found, const KnownRows& rows,
                                             Count k, const Confidence& law,
                                             double vector_scale, const Given& now,
                                             const Given& scope) const {
    std::vector<ReadHit> hits(found.hits.size());
    for (std::size_t i = 0; i < hits.size(); ++i) {
      if (rows.list[i].is_none()) return std::nullopt;
      hits[i] = {&found.hits[i], rows.at(i)};
    }
    // The engine orders ties by row.
    std::ranges::stable_sort(hits, precedes);
    hits.resize(std::min(hits.size(), k.value));
    std::vector<RatedHit> rated;
    float covered = 0.0F;
    for (std::size_t i = 0; i < hits.size(); ++i) {
      const RecallHit& hit = *hits[i].hit;
      rated.push_back({hit.score, hit.covered, hit.parts.vectors, hit.parts.factor,
                       hit.similarity, size_of(value(hits[i].row, kText))});
      if (i < kFirst) covered = std::max(covered, hit.covered);
    }
    const double best = rated.empty() ? 0.0 : rated.front().score;
    const std::vector<Rating> ratings = law.rate(rated, best, vector_scale);
    py::list entries;
    for (std::size_t i = 0; i < hits.size(); ++i) {
      const Scores scores = {py::float_(rated[i].score),
                             py::float_(rated[i].similarity),
                             py::float_(ratings[i].confidence), py::none()};
      entries.append(entry(hits[i].row, scores, now.object, scope.object));
    }
    return py::make_tuple(entries, hits.empty() ? 0.0 : ratings.front().confidence,
                          covered);
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("made: expected a class with the slots of an entry");
  }

  struct ReadHit {
    const RecallHit* hit = nullptr;
    py::object row;
  };

  // The better one; of equal ones the newer, then that of the smaller id.
  static bool precedes(const ReadHit& a, const ReadHit& b) {
    if (a.hit->score != b.hit->score) return a.hit->score > b.hit->score;
    const double time_of_a = seconds_of(time_of(a.row));
    const double time_of_b = seconds_of(time_of(b.row));
    if (time_of_a != time_of_b) return time_of_a > time_of_b;
    const int order =
        PyUnicode_Compare(value(a.row, kId).ptr(), value(b.row, kId).ptr());
    if (order == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return order < 0;
  }

  static double seconds_of(py::handle time) {
    const double seconds = PyFloat_AsDouble(time.ptr());
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    return seconds;
  }

  // When it was said, or else stored.
  static py::handle time_of(const py::object& row) {
    const py::handle told = value(row, kTimestamp);
    return told.is_none() ? value(row, kCreatedAt) : told;
  }

  static double size_of(py::handle text) {
    if (!PyUnicode_Check(text.ptr())) throw InvalidTypeError("rows: expected texts");
    return static_cast<double>(PyUnicode_GET_LENGTH(text.ptr()));
  }

  static py::handle value(const py::object& row, Py_ssize_t place) {
    return PyTuple_GET_ITEM(row.ptr(), place);
  }

  [[nodiscard]] py::object entry(const py::object& row, const Scores& scores,
                                 const py::object& now, const py::object& scope) const {
    const auto own = [&row](Column column) {
      return py::reinterpret_borrow<py::object>(value(row, column));
    };
    const py::object content = own(kContent);
    const py::object metadata = own(kMetadata);
    std::array<py::object, kFields.size()> values = {
        content.is_none() ? own(kText) : parsed_(content),
        own(kId),
        own(kAuthor),
        time(own(kTimestamp), "timestamp"),
        own(kSession),
        own(kEvent),
        own(kKind),
        own(kSource),
        own(kTrust),
        metadata.is_none() ? py::dict() : parsed_(metadata),
        importance(row, now),
        scores.score,
        std::isnan(scores.similarity.cast<double>()) ? py::none() : scores.similarity,
        scores.confidence,
        scores.explanation,
        own(kCreatedAt),
        own(kUpdatedAt),
        time(own(kValidUntil), "valid_until"),
        own(kSupersedes),
        scope};
    auto* const type = reinterpret_cast<PyTypeObject*>(made_.ptr());
    auto made = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
    if (!made) throw py::error_already_set();
    auto* const begin = reinterpret_cast<std::byte*>(made.ptr());
    for (std::size_t i = 0; i < values.size(); ++i) {
      *reinterpret_cast<PyObject**>(begin + offsets_[i]) = values[i].release().ptr();
    }
    return made;
  }

  [[nodiscard]] py::object time(py::object given, const char* name) const {
    if (given.is_none() || PyFloat_CheckExact(given.ptr())) return given;
    return seconds_(given, name);
  }

  // By age and use at a time; without one, the stored one.
  [[nodiscard]] py::object importance(const py::object& row,
                                      const py::object& now) const {
    auto found = py::reinterpret_borrow<py::object>(value(row, kPrior));
    if (!now.is_none()) {
      const auto age = py::reinterpret_steal<py::object>(
          PyNumber_Subtract(now.ptr(), time_of(row).ptr()));
      if (!age) throw py::error_already_set();
      const auto days = py::reinterpret_steal<py::object>(
          PyNumber_FloorDivide(age.ptr(), day_.ptr()));
      if (!days) throw py::error_already_set();
      found = weight_(found, value(row, kUses), days);
    } else if (found.is_none()) {
      found = prior_;
    }
    const double share =
        PyFloat_CheckExact(found.ptr()) ? PyFloat_AS_DOUBLE(found.ptr()) : -1.0;
    if (!(share >= 0.0 && share <= 1.0)) checked_(found, "importance");
    return found;
  }

  py::object made_, parsed_, seconds_, weight_, checked_, day_, prior_;
  std::array<Py_ssize_t, kFields.size()> offsets_ = {};
};

}  // namespace

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::EntryMaker>
    : MadeInstanceCaster<vecall::bindings::EntryMaker> {};

}  // namespace pybind11::detail

namespace vecall::bindings {

void bind_entries(py::module_& module) {
  py::class_<EntryMaker> bound(module, "EntryMaker",
                               R"(Makes entries of rows, without calls of Python.

Args:
    made: The class of an entry: frozen, with slots.
    parsed: Returns the object of a JSON text.
    seconds: Returns a time that is no float as one; takes its name too.
    weight: Returns the importance for a stored one, a count of uses and an age in days.
    checked: Raises for an importance that is no float within [0, 1].
    day: The seconds of a day.
    prior: The importance of rows without one.

Raises:
    InvalidTypeError: The class lacks a slot.)");
  def_strict_init(bound,
                  py::init<const Given&, const Given&, const Given&, const Given&,
                           const Given&, const Given&, const Given&>(),
                  "made"_a, "parsed"_a, "seconds"_a, "weight"_a, "checked"_a, "day"_a,
                  "prior"_a);
  def_strict(bound, "make", &EntryMaker::make, "rows"_a, "scores"_a, "now"_a, "scope"_a,
             R"(Returns the entry of each row; it shares no object that can change.

Args:
    rows: Each a `Row` of the storage.
    scores: Of each its score, cosine (NaN without one), confidence and explanation.
    now: The time of the importance, in seconds since 1970; None is what is stored.
    scope: The scope that was read.)");
  def_strict(bound, "answer", &EntryMaker::answer, "found"_a, "rows"_a, "k"_a, "law"_a,
             "vector_scale"_a, "now"_a, "scope"_a,
             R"(Returns the entries of what a search found, best first.

Of equal scores the newer memory comes first, then that of the smaller id.

Args:
    found: What Engine.recall_found returned.
    rows: The row of each hit, or None where it is unknown.
    k: The most entries.
    law: Rates the hits.
    vector_scale: See Confidence.rate.
    now: As for make.
    scope: As for make.

Returns:
    The entries without explanations, the highest confidence, and the largest share of the
    query that one of the first five covers; None if a row is unknown.)");
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("an EntryMaker cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

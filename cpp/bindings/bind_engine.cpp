#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind_recall.hpp"
#include "bindings.hpp"
#include "casters.hpp"
#include "filters.hpp"
#include "gil_release.hpp"
#include "gil_release_on_wait.hpp"
#include "instances.hpp"
#include "options.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/engine.hpp"
#include "vecall/normalise.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

// For calls that may wait for a writer, or free much, and are not searches.
using Unlocked = py::call_guard<GilRelease>;

void add(Engine& engine, const Key& key, const IdVector<"ids">& ids,
         const FloatMatrix& vectors) {
  check_dim(vectors.columns, engine.dim());
  if (ids.rows != vectors.rows) {
    throw InvalidArgumentError("ids and vectors: must have the same number of rows");
  }
  RowBatch batch;
  batch.ids.assign(ids.values.begin(), ids.values.end());
  batch.has_vector.assign(ids.rows, 1);
  batch.vectors = vectors.values;
  const GilRelease release;
  engine.add(key.value, batch);
}

// The columns of add_rows; each but the words is (n,) long.
struct Columns {
  const IdView& times;
  const IdView& expires;
  const HashView& sessions;
  const PositionVector& positions;
  const HashView* authors;  // null for None
  const HashView* kinds;
};

std::vector<RowMeta> make_meta(const Columns& columns, std::size_t count) {
  for (const std::size_t rows : {columns.times.rows, columns.expires.rows,
                                 columns.sessions.rows, columns.positions.rows}) {
    if (rows != count) {
      throw InvalidArgumentError("rows: every id needs one entry in each column");
    }
  }
  for (const HashView* labels : {columns.authors, columns.kinds}) {
    if (labels != nullptr && labels->rows != count) {
      throw InvalidArgumentError("rows: every id needs one entry in each column");
    }
  }
  std::vector<RowMeta> meta(count);
  for (std::size_t i = 0; i < count; ++i) {
    meta[i] = {columns.times.values[i], columns.expires.values[i],
               columns.sessions.values[i], columns.positions.values[i]};
    if (columns.authors != nullptr) meta[i].author = columns.authors->values[i];
    if (columns.kinds != nullptr) meta[i].kind = columns.kinds->values[i];
  }
  return meta;
}

void add_rows(Engine& engine, const Key& key, const IdVector<"ids">& ids,
              const IdVector<"times">& times, const IdVector<"expires">& expires,
              const HashVector<"sessions">& sessions, const PositionVector& positions,
              const HashVector<"terms">& terms, const IdVector<"offsets">& offsets,
              const std::optional<FloatMatrix>& vectors,
              const std::optional<ByteVector>& has_vector,
              const std::optional<HashVector<"authors">>& authors,
              const std::optional<HashVector<"kinds">>& kinds) {
  RowBatch batch;
  batch.meta =
      make_meta({times, expires, sessions, positions, view_of(authors), view_of(kinds)},
                ids.rows);
  batch.ids.assign(ids.values.begin(), ids.values.end());
  batch.terms.assign(terms.values.begin(), terms.values.end());
  batch.offsets.assign(offsets.values.begin(), offsets.values.end());
  if (vectors) {
    check_dim(vectors->columns, engine.dim());
    if (vectors->rows != ids.rows || (has_vector && has_vector->rows != ids.rows)) {
      throw InvalidArgumentError(
          "vectors and has_vector: every id needs one entry in each");
    }
    batch.vectors = vectors->values;
    batch.has_vector.assign(ids.rows, 1);
    if (has_vector) {
      batch.has_vector.assign(has_vector->values.begin(), has_vector->values.end());
    }
  } else if (has_vector) {
    throw InvalidArgumentError("has_vector: goes with vectors");
  }
  const GilRelease release;
  engine.add(key.value, batch);
}

HitArrays search(
    const Engine& engine, const Key& key, const FloatVector<"query">& query, Count k,
    Ef ef, bool exact, std::optional<HashArg<"session">> session,
    std::optional<HashArg<"author">> author, std::optional<HashArg<"kind">> kind,
    std::optional<TimeArg<"after">> after, std::optional<TimeArg<"before">> before,
    std::optional<TimeArg<"now">> now, const std::optional<IdVector<"only">>& only) {
  thread_local std::vector<float> unit;
  thread_local std::vector<Hit> hits;
  hits.clear();
  if (normalise_query(query.values, engine.dim(), unit)) {
    const FilterArgs filters{value_of(session), value_of(author), value_of(kind),
                             value_of(after),   value_of(before), value_of(now),
                             view_of(only)};
    const SearchQuery question{unit, k.value, ef.value, exact, filters.filter()};
    with_wait_hook(
        [&](WaitHook hook) { engine.search(key.value, question, hits, hook); });
  }
  return to_arrays(hits);
}

std::optional<py::bytes> snapshot(const Engine& engine, const Key& key,
                                  const py::bytes& tag) {
  const std::string copy = tag;
  std::vector<std::byte> bytes;
  {
    const GilRelease release;
    bytes = engine.snapshot(key.value, std::as_bytes(std::span(copy)));
  }
  if (bytes.empty()) return std::nullopt;
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// The tag that the snapshot was made with.
py::bytes restore(Engine& engine, const Key& key, const py::bytes& snapshot) {
  const std::string_view bytes = snapshot;
  SnapshotTag tag{};
  {
    const GilRelease release;
    tag = engine.restore(key.value, std::as_bytes(std::span(bytes)));
  }
  return py::bytes(reinterpret_cast<const char*>(tag.data()), tag.size());
}

std::vector<std::pair<std::string, std::string>> sweep(Engine& engine, Count count) {
  std::vector<std::pair<std::string, std::string>> keys;
  const GilRelease release;
  for (PartitionName& name : engine.sweep(count.value)) {
    keys.emplace_back(std::move(name.app), std::move(name.user));
  }
  return keys;
}

std::size_t remove(Engine& engine, const Key& key, const IdVector<"ids">& ids) {
  const GilRelease release;
  return engine.remove(key.value, ids.values);
}

}  // namespace

void bind_engine(py::module_& module) {
  static const std::string doc =
      std::string(R"(Many partitions, one for each (app, user).

A call sees the partition of its key and nothing else: neither rows nor statistics of
another. Safe to share between threads.

Args:
    dim: Length of every vector, up to 65,536; 0 for words alone.)") +
      kOptionsDoc + R"(
Raises:
    InvalidArgumentError: an option is outside what is allowed.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)";
  py::class_<Engine> bound(module, "Engine", doc.c_str());
  def_strict_init(bound,
                  py::init([](Dim dim, const std::string& kind, Links m,
                              BuildBreadth ef_construction, const std::string& codec,
                              bool keep_float32, FlatBytes flat_bytes, Seed seed) {
                    return Engine(dim.value,
                                  parse_options(kind, m, ef_construction, codec,
                                                keep_float32, flat_bytes, seed));
                  }),
                  "dim"_a, py::kw_only(), "kind"_a = "auto", "m"_a = Links{16},
                  "ef_construction"_a = BuildBreadth{100}, "codec"_a = "int4+8",
                  "keep_float32"_a = false, "flat_bytes"_a = FlatBytes{4 << 20},
                  "seed"_a = Seed{kRotationSeed});
  def_strict(bound, "add", &add, "key"_a, "ids"_a, "vectors"_a,
             R"(Adds vectors to one partition, or replaces those with the same id.

Args:
    key: (app_name, user_id), two non-empty strings, compared byte for byte.
    ids: int64 (n,). The last of equal ids wins.
    vectors: float32 (n, dim), finite and not zero.)");
  def_strict(bound, "add_rows", &add_rows, "key"_a, "ids"_a, "times"_a, "expires"_a,
             "sessions"_a, "positions"_a, "terms"_a, "offsets"_a,
             "vectors"_a = py::none(), "has_vector"_a = py::none(),
             "authors"_a = py::none(), "kinds"_a = py::none(),
             R"(Adds whole rows to one partition, or replaces those with the same id.

Args:
    key: (app_name, user_id).
    ids: int64 (n,).
    times: int64 (n,), microseconds since 1970; orders ties and answers time filters.
    expires: int64 (n,), microseconds; the largest int64 means never.
    sessions: uint64 (n,), hash of the session's name; 0 means none.
    positions: float64 (n,), order in the session; neighbours are at most 1 apart. NaN
        is a row without a place, which has no neighbours. int32 is taken too.
    terms: uint64 (m,), hashed words of all rows, row after row.
    offsets: int64 (n + 1,), where each row's words begin in terms.
    vectors: float32 (n, dim), or None for rows without vectors.
    has_vector: uint8 (n,), 0 where a row of `vectors` is to be ignored; None means all.
    authors: uint64 (n,), hash of the author's name; 0 means none. None means no authors.
    kinds: uint64 (n,), hash of the kind's name, likewise.)");
  def_strict(bound, "search", &search, "key"_a, "query"_a, "k"_a, "ef"_a = Ef{64},
             py::kw_only(), "exact"_a = false, "session"_a = py::none(),
             "author"_a = py::none(), "kind"_a = py::none(), "after"_a = py::none(),
             "before"_a = py::none(), "now"_a = py::none(), "only"_a = py::none(),
             R"(Finds the k nearest vectors of one partition.

Args:
    key: (app_name, user_id).
    query: float32 (dim,), finite. A zero vector finds nothing.
    k: At least 1.
    ef: Breadth of a search of the graph; scans do not use it.
    exact: Whether to look at every row, and to score from float32 where it is stored.
    session: Only rows of the session with this hash; 0 for those without.
    author: Only rows of the author with this hash.
    kind: Only rows of the kind with this hash.
    after: Only rows at or after this time, in microseconds.
    before: Only rows before this time, in microseconds.
    now: Rows that expire at or before this time are not found.
    only: int64 (m,), the ids that may be found; None means all.

Returns:
    ids int64 (<= k,) and cosines float32 (<= k,), best first. An unknown key finds
    nothing.)");
  bind_recall(module, bound);
  def_strict(bound, "remove", &remove, "key"_a, "ids"_a,
             R"(Removes rows by id, int64 (n,); unknown ids are ignored.

Returns:
    How many of them were there.)");
  def_strict(bound, "snapshot", &snapshot, "key"_a, "tag"_a = py::bytes(),
             R"(One partition as bytes, checksummed, to be restored later.

Args:
    key: (app_name, user_id).
    tag: Up to 48 bytes that come back with the snapshot, padded with zeros.

Returns:
    The bytes, or None for an unknown key.)");
  def_strict(bound, "restore", &restore, "key"_a, "snapshot"_a,
             R"(Puts the partition of a snapshot in the place of what stood there.

Returns:
    The tag, 48 bytes.

Raises:
    CorruptFileError: the bytes are damaged; nothing changed.
    IncompatibleFileError: they are no snapshot, of another version, or of vectors that
        this engine cannot hold; nothing changed.)");
  def_strict(bound, "sweep", &sweep, "k"_a,
             R"(Partitions to evict when memory is short: those not used lately.

The clock algorithm: a partition that was looked up since the sweep came by last is spared
once. To evict one, take its snapshot() and drop() it.

Args:
    k: At most so many.

Returns:
    Their keys.)");
  def_strict(
      bound, "drop", [](Engine& self, const Key& key) { return self.drop(key.value); },
      "key"_a, Unlocked(), "Frees a whole partition; True if there was one.");
  def_strict(
      bound, "size",
      [](const Engine& self, const Key& key) { return self.size(key.value); }, "key"_a,
      Unlocked(), "Rows of one partition.");
  def_strict(
      bound, "nbytes_of",
      [](const Engine& self, const Key& key) { return self.nbytes_of(key.value); },
      "key"_a, Unlocked(), "Memory that one partition holds, 0 for an unknown key.");
  def_strict(
      bound, "__contains__",
      [](const Engine& self, const Key& key) { return self.contains(key.value); },
      "key"_a);
  def_strict(bound, "__len__", &Engine::partitions);
  bound.def_property_readonly("dim", &Engine::dim, "Length of every vector.");
  bound.def_property_readonly("nbytes", py::cpp_function(&Engine::nbytes, Unlocked()),
                              "Memory that the engine holds.");
  // Without this, protocols 0 and 1 would copy an object without its engine.
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError(
        "an Engine cannot be pickled or copied; snapshot() its partitions");
  });
}

}  // namespace vecall::bindings

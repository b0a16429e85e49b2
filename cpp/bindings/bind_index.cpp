#include <pybind11/stl.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "casters.hpp"
#include "gil_release.hpp"
#include "gil_release_on_wait.hpp"
#include "index_arguments.hpp"
#include "instances.hpp"
#include "options.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/errors.hpp"
#include "vecall/index.hpp"
#include "vecall/normalise.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

Index make_index(IndexDim dim, const std::string& kind, Links m,
                 BuildBreadth ef_construction, const std::string& codec,
                 bool keep_float32, FlatBytes flat_bytes, Seed seed) {
  return Index(dim.value, parse_options(kind, m, ef_construction, codec, keep_float32,
                                        flat_bytes, seed));
}

void add(Index& index, const Ids& ids, const VectorsArg<"vectors">& vectors) {
  if (vectors.rows > 0 || vectors.is_matrix) check_dim(vectors.columns, index.dim());
  if (ids.values.size() != vectors.rows) {
    throw InvalidArgumentError("ids and vectors: must have the same number of rows");
  }
  const GilRelease release;
  index.add(ids.values, vectors.values);
}

std::vector<RowId> ids_of(const Index& index) {
  return with_wait_hook([&](WaitHook hook) { return index.ids(hook); });
}

// The ids of `only`; `storage` holds those of a mask.
std::span<const RowId> resolve(const Only& only, const Index& index,
                               std::vector<RowId>& storage) {
  if (!only.is_mask) return only.ids.values;
  const std::vector<RowId> all = ids_of(index);
  if (only.mask.size() != all.size()) refuse_mask(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (only.mask[i] != 0) storage.push_back(all[i]);
  }
  return storage;
}

HitArrays search_all(const Index& index, const Vectors& queries, SearchOptions options,
                     ThreadCount threads, const std::optional<Only>& only,
                     const char* argument) {
  check_dim(queries.columns, index.dim(), argument);
  const std::size_t size =
      with_wait_hook([&](WaitHook hook) { return index.size(hook); });
  options.k = std::min(options.k, std::max<std::size_t>(1, size));
  Array<std::int64_t> ids({queries.rows, options.k});
  Array<float> scores({queries.rows, options.k});
  // Writes may come between the queries: a mask is one of the rows that are here now.
  std::vector<RowId> allowed;
  if (only) options.only = resolve(*only, index, allowed);
  const std::size_t count = queries.rows * options.k;
  RowId* const id = ids.mutable_data();
  float* const score = scores.mutable_data();
  {
    InterruptibleRelease release;
    index.search_batch(queries.values, options, threads.value, {id, count},
                       {score, count}, PauseHook(release));
  }
  return py::make_tuple(std::move(ids), std::move(scores));
}

HitArrays search(const Index& index, const VectorsArg<"query">& query, Count k, Ef ef,
                 bool exact, const std::optional<Only>& only) {
  SearchOptions options{k.value, ef.value, exact, {}, {}};
  if (query.is_matrix) {
    return search_all(index, query, options, ThreadCount{1}, only, "query");
  }
  thread_local std::vector<Hit> hits;
  check_dim(query.columns, index.dim(), "query");
  if (only && only->is_mask) options.mask = only->mask;
  if (only && !only->is_mask) options.only = only->ids.values;
  with_wait_hook(
      [&](WaitHook hook) { index.search(query.values, options, hits, hook); });
  return to_arrays(hits);
}

HitArrays search_batch(const Index& index, const VectorsArg<"queries", 2>& queries,
                       Count k, Ef ef, bool exact, ThreadCount threads,
                       const std::optional<Only>& only) {
  return search_all(index, queries, {k.value, ef.value, exact, {}, {}}, threads, only,
                    "queries");
}

std::size_t remove(Index& index, const Ids& ids) {
  const GilRelease release;
  return index.remove(ids.values);
}

void build(Index& index, ThreadCount threads) {
  InterruptibleRelease release;
  index.build(threads.value, PauseHook(release));
}

void save(const Index& index, const Path& path, bool mmap) {
  const GilRelease release;
  index.save(path.value, mmap);
}

Index load(const Path& path, bool mmap) {
  const GilRelease release;
  return mmap ? Index::map(path.value) : Index::load(path.value);
}

py::bytes state_of(const Index& index) {
  std::vector<std::byte> bytes;
  {
    const GilRelease release;
    bytes = index.to_bytes();
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Index from_state(const py::bytes& state) {
  const std::string_view bytes = state;
  const GilRelease release;
  return Index::from_bytes(std::as_bytes(std::span(bytes)));
}

const char* kind_of(const Index& index) noexcept {
  constexpr const char* kKinds[] = {"auto", "flat", "hnsw"};
  return kKinds[static_cast<std::size_t>(index.kind())];
}

std::size_t nbytes_of(const Index& index) {
  return with_wait_hook([&](WaitHook hook) { return index.nbytes(hook); });
}

std::size_t size_of(const Index& index) {
  return with_wait_hook([&](WaitHook hook) { return index.size(hook); });
}

Array<std::int64_t> id_array(const Index& index) {
  const std::vector<RowId> all = ids_of(index);
  return Array<std::int64_t>(static_cast<py::ssize_t>(all.size()), all.data());
}

std::string repr(const Index& index) {
  constexpr double kMega = 1e6;
  char size[32];
  std::snprintf(size, sizeof(size), "%.1f MB",
                static_cast<double>(nbytes_of(index)) / kMega);
  return "Index(dim=" + std::to_string(index.dim()) +
         ", rows=" + std::to_string(size_of(index)) + ", kind='" + kind_of(index) +
         "', " + size + (index.is_mapped() ? ", mmap)" : ")");
}

bool contains(const Index& index, const py::object& number) {
  const py::object integer = integer_of(number);
  int overflow = 0;
  const long long id =
      integer ? PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow) : 0;
  if (!integer || overflow != 0) return false;  // no int64, so no id
  return with_wait_hook([&](WaitHook hook) { return index.contains(id, hook); });
}

}  // namespace

void bind_index(py::module_& module) {
  static const std::string doc =
      std::string(R"(Nearest neighbours by cosine in one set of vectors.

Safe to share between threads. Vectors are normalised once, when they are added.
`vector_id in index` says whether it is here; what is no integer is not.

Args:
    dim: Length of every vector, 1 to 65,536.)") +
      kOptionsDoc + R"(
Raises:
    InvalidArgumentError: an option is outside what is allowed.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)";
  py::class_<Index> bound(module, "Index", doc.c_str());
  def_strict_init(bound, py::init(&make_index), "dim"_a, "kind"_a = "auto",
                  "m"_a = Links{16}, "ef_construction"_a = BuildBreadth{100},
                  "codec"_a = "int4+8", "keep_float32"_a = false,
                  "flat_bytes"_a = FlatBytes{4 << 20}, "seed"_a = Seed{kRotationSeed});
  def_strict(bound, "add", &add, "ids"_a, "vectors"_a,
             R"(Adds vectors, or replaces those whose id is here already.

Arrays of int64 and float32 are taken as they are; other integers and numbers, and lists
of them, are converted.

Args:
    ids: Integers (n,), or one. The last of equal ids wins. Avoid -1:
        `search_batch` returns it in place of a missing hit.
    vectors: Numbers (n, dim), or (dim,) for one id; finite as float32 and not zero.

Raises:
    InvalidArgumentError: a value is NaN, Inf or a zero vector; nothing was added.
    InvalidTypeError: no numbers, or another shape.
    DimensionError: vectors of another length.)");
  def_strict(bound, "search", &search, "query"_a, "k"_a, "ef"_a = Ef{64}, py::kw_only(),
             "exact"_a = false, "only"_a = py::none(),
             R"(Finds the k nearest vectors.

Args:
    query: Numbers (dim,), finite. A zero vector finds nothing. Many queries (n, dim) are
        answered as by `search_batch`.
    k: At least 1; fewer come back when fewer are there.
    ef: Breadth of a search of the graph; scans do not use it.
    exact: Whether to look at every row, and to score from float32 where it is stored.
    only: Integers (m,), the ids that may be found, or a mask, bools (len(index),) in the
        order of `ids`; None means all.

Returns:
    ids int64 (<= k,) and cosines float32 (<= k,), best first. Cosines are cut to
    [-1, 1] after they are ordered; equal ones come by smaller id.

Raises:
    InvalidArgumentError: k < 1, NaN or Inf.
    InvalidTypeError: not an array of that dtype and shape.
    DimensionError: a query of another length.)");
  def_strict(bound, "search_batch", &search_batch, "queries"_a, "k"_a, "ef"_a = Ef{64},
             py::kw_only(), "exact"_a = false, "threads"_a = ThreadCount{1},
             "only"_a = py::none(),
             R"(Answers many queries, each as `search` would.

Args:
    queries: Numbers (n, dim).
    k: At least 1.
    ef: As in `search`.
    exact: As in `search`.
    threads: How many threads share the work, at most one a processor; -1 for that many.
    only: As in `search`, for all queries.

Returns:
    ids int64 (n, min(k, len(index))) and cosines float32 of the same shape; where a row
    has fewer hits, id -1 and score -inf. An empty index gives one such column.

Ctrl-C ends it after the queries that are being answered. A long batch lets writes in
between its queries.)");
  def_strict(bound, "remove", &remove, "ids"_a,
             R"(Removes vectors by id, integers (n,) or one; unknown ids are ignored.

Returns:
    How many of them were here.)");
  def_strict(bound, "build", &build, py::kw_only(), "threads"_a = ThreadCount{1},
             R"(Links now what the background would link by and by.

Ctrl-C ends it within milliseconds; what was linked stays.

Args:
    threads: How many threads share the work, at most one a processor; -1 for that many.
        The graph does not depend on it.)");
  def_strict(
      bound, "save", &save, "path"_a, py::kw_only(), "mmap"_a = false,
      R"(Writes the index to a file, which then is the new one whole or the old one.

The graph goes with it, and of removed vectors that the graph still passes through, their
4-bit codes.

Args:
    path: The file.
    mmap: Whether `load(path, mmap=True)` shall be fast, for 4 bytes a vector more. A file
        without them is read in part when it is mapped.

Raises:
    CorruptFileError: the index is mapped, and its file is damaged.
    StorageFullError: no room was left.
    StorageError: the file could not be written.)");
  def_strict_static(bound, "load", &load, "path"_a, py::kw_only(), "mmap"_a = false,
                    R"(Reads an index that `save` wrote.

With `mmap`, vectors, ids and links stay in the file, of which a search reads what it
needs; processes share the memory. Answers are the same. `add`, `remove` and `build` raise
ReadOnlyError. The file may be replaced or deleted meanwhile, but not written in place:
bytes that change are answers that change, and a file that is cut ends the process
(SIGBUS). Bytes that are not read at opening are not verified; `save` and pickle do so.

Args:
    path: The file.
    mmap: Whether to map the file. Such an index cannot be changed.

Raises:
    IncompatibleFileError: the file is no snapshot of vecall, or of another version; with
        `mmap`, also a partition of an Engine that has words, times or sessions.
    CorruptFileError: the file is damaged.
    MissingFileError: there is no such file.
    StorageError: the file could not be read.)");
  def_strict(bound, "__contains__", &contains, "id"_a);
  def_strict(bound, "__len__", &size_of);
  def_strict(bound, "__repr__", &repr);
  def_strict(
      bound, "__iter__",
      [](const Index& self) -> py::typing::Iterator<py::int_> {
        return py::iter(id_array(self).attr("tolist")());
      },
      "Goes over the ids, as they are now.");
  bound.def(py::pickle(&state_of, &from_state));
  bound.def_property_readonly(
      "ids", &id_array,
      "The ids, int64 (len(index),), in an order that stays until "
      "rows are added or removed.");
  bound.def_property_readonly("kind", &kind_of, "'auto', 'flat' or 'hnsw'.");
  bound.def_property_readonly("dim", &Index::dim, "Length of every vector.");
  bound.def_property_readonly(
      "linked",
      [](const Index& self) {
        return with_wait_hook([&](WaitHook hook) { return self.linked(hook); });
      },
      "Vectors that the graph answers for.");
  bound.def_property_readonly("nbytes", &nbytes_of, "Memory that the index holds.");
}

}  // namespace vecall::bindings

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "batch_search.hpp"
#include "bindings.hpp"
#include "casters.hpp"
#include "gil.hpp"
#include "gil_release.hpp"
#include "index_arguments.hpp"
#include "instances.hpp"
#include "kernels/dispatch.hpp"
#include "options.hpp"
#include "partition/linker.hpp"
#include "partition/partition.hpp"
#include "partition/partition_snapshot.hpp"
#include "query.hpp"
#include "results.hpp"
#include "snapshot/snapshot_file.hpp"
#include "strict.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

Ref<Partition> make_partition(IndexDim dim, Codec codec, bool keep_float32,
                              const GraphOptions& graph, Seed seed) {
  kernels::active();
  return make_ref<Partition>(make_ref<const PartitionSpace>(
      dim.value, codec, keep_float32, graph, seed.value));
}

// One partition without words or names.
class Index {
  template <class Read>
  auto read(Read what) const {
    std::invoke_result_t<Read, const Partition&> value{};
    with_shared_lock(partition_->mutex(),
                     [&] { value = std::invoke(what, *partition_); });
    return value;
  }

 public:
  Index(IndexDim dim, const std::string& kind, Links m, BuildBreadth ef_construction,
        const std::string& codec, bool keep_float32, FlatBytes flat_bytes, Seed seed)
      : partition_(make_partition(dim, parse_codec(codec), keep_float32,
                                  parse_graph(kind, m, ef_construction, flat_bytes),
                                  seed)),
        kind_(kind) {}

  void add(const Ids& ids, const Vectors& vectors) {
    const std::size_t count = ids.values.size();
    if (vectors.rows > 0 || vectors.is_matrix) require_dim(vectors.columns, dim());
    if (count != vectors.rows) {
      throw InvalidArgumentError("ids and vectors: must have the same number of rows");
    }
    RowBatch batch;
    batch.ids.assign(ids.values.begin(), ids.values.end());
    batch.has_vector.assign(count, 1);
    const GilRelease release;
    batch.unit_vectors = normalised_rows(vectors.values, dim(), batch.has_vector);
    Partition::check(batch, dim());
    add_rows(partition_, batch);
  }

  HitArrays search(const Query& query, Count k, Ef ef, bool exact,
                   const std::optional<Only>& only) const {
    if (query.is_matrix) {
      return answer_all(query, k, ef, exact, ThreadCount{1}, only, "query");
    }
    thread_local std::vector<float> unit;
    thread_local std::vector<Hit> hits;
    hits.clear();
    require_dim(query.columns, dim(), "query");
    if (to_unit(query.values, dim(), unit)) {
      std::vector<RowId> allowed;
      SearchQuery asked{unit, k.value, ef.value, exact, {}};
      if (only) asked.filter.only = ids_of(*only, allowed);
      with_shared_lock(
          partition_->mutex(), [&] { return partition_->search_bytes(ef.value); },
          [&] { partition_->search(asked, hits); });
    }
    return to_arrays(hits);
  }

  HitArrays search_batch(const Queries& queries, Count k, Ef ef, bool exact,
                         ThreadCount threads, const std::optional<Only>& only) const {
    if (!queries.is_matrix) {
      throw InvalidTypeError("queries: expected a 2-D array or list of numbers");
    }
    return answer_all(queries, k, ef, exact, threads, only, "queries");
  }

  std::size_t remove(const Ids& ids) {
    const GilRelease release;
    return remove_rows(partition_, ids.values);
  }

  // Links here what the background would.
  void build() {
    const GilRelease release;
    while (partition_->link_some()) {
    }
  }

  void save(const Path& path) const {
    const GilRelease release;
    write_snapshot_file(path.value, PartitionSnapshot::save(*partition_, {}));
  }
  static std::unique_ptr<Index> load(const Path& path) {
    std::vector<std::byte> bytes;
    {
      const GilRelease release;
      bytes = read_snapshot_file(path.value);
    }
    return from_bytes(bytes);
  }
  static std::unique_ptr<Index> from_bytes(const std::vector<std::byte>& bytes) {
    constexpr const char* kKinds[] = {"auto", "flat", "hnsw"};
    Ref<Partition> partition;
    std::string kind;
    {
      const GilRelease release;
      const SnapshotReader reader(bytes);
      if (reader.header().dim == 0) refuse_snapshot("holds no vectors");
      partition =
          PartitionSnapshot::restore(reader, PartitionSnapshot::space_of(reader));
      kind = kKinds[reader.header().kind];
      request_links(partition);
    }
    return std::unique_ptr<Index>(new Index(std::move(partition), kind));
  }
  [[nodiscard]] py::bytes state() const {
    std::vector<std::byte> bytes;
    {
      const GilRelease release;
      bytes = PartitionSnapshot::save(*partition_, {});
    }
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::unique_ptr<Index> from_state(const py::bytes& state) {
    const std::string_view given = state;
    const auto raw = std::as_bytes(std::span(given));
    return from_bytes({raw.begin(), raw.end()});
  }

  [[nodiscard]] Array<std::int64_t> ids() const {
    const std::vector<RowId> all = read(&Partition::live_ids);
    return Array<std::int64_t>(static_cast<py::ssize_t>(all.size()), all.data());
  }
  [[nodiscard]] std::string repr() const {
    constexpr double kMega = 1e6;
    char size[32];
    std::snprintf(size, sizeof(size), "%.1f MB", static_cast<double>(nbytes()) / kMega);
    return "Index(dim=" + std::to_string(dim()) +
           ", rows=" + std::to_string(this->size()) + ", kind='" + kind_ + "', " +
           size + ")";
  }
  [[nodiscard]] const std::string& kind() const noexcept { return kind_; }

  [[nodiscard]] bool contains(const py::object& number) const {
    PyObject* index =
        PyBool_Check(number.ptr()) ? nullptr : PyNumber_Index(number.ptr());
    if (index == nullptr) {
      PyErr_Clear();
      return false;  // no integer, so no id
    }
    const auto owned = py::reinterpret_steal<py::object>(index);
    int overflow = 0;
    const long long id = PyLong_AsLongLongAndOverflow(index, &overflow);
    if (overflow != 0) return false;  // no int64, so no id
    return read([id](const Partition& partition) { return partition.contains(id); });
  }
  [[nodiscard]] std::size_t size() const { return read(&Partition::size); }
  [[nodiscard]] std::size_t linked() const { return read(&Partition::linked); }
  [[nodiscard]] std::size_t nbytes() const { return read(&Partition::nbytes); }
  [[nodiscard]] std::size_t dim() const noexcept { return partition_->dim(); }

 private:
  // The ids of `only`; `storage` holds those of a mask.
  std::span<const RowId> ids_of(const Only& only, std::vector<RowId>& storage) const {
    if (!only.is_mask) return only.ids.values;
    const std::vector<RowId> all = read(&Partition::live_ids);
    if (only.mask.size() != all.size()) {
      throw InvalidArgumentError("only: a mask needs one bool for each of Index.ids, " +
                                 std::to_string(all.size()) + " of them");
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (only.mask[i] != 0) storage.push_back(all[i]);
    }
    return storage;
  }

  HitArrays answer_all(const Vectors& queries, Count k, Ef ef, bool exact,
                       ThreadCount threads, const std::optional<Only>& only,
                       const char* argument) const {
    require_dim(queries.columns, dim(), argument);
    const auto columns = std::min(k.value, std::size_t{1} << 31);
    const std::size_t width = std::min(columns, std::max<std::size_t>(1, size()));
    Array<std::int64_t> ids({queries.rows, width});
    Array<float> scores({queries.rows, width});
    std::fill_n(ids.mutable_data(), ids.size(), -1);
    std::fill_n(scores.mutable_data(), scores.size(),
                -std::numeric_limits<float>::infinity());
    const std::vector<float> copy(queries.values.begin(), queries.values.end());
    std::vector<float> units(copy.size());
    std::vector<std::uint8_t> is_zero(queries.rows);
    std::vector<float> unit;
    for (std::size_t row = 0; row < queries.rows; ++row) {
      const std::span<const float> query(copy.data() + row * dim(), dim());
      is_zero[row] = to_unit(query, dim(), unit) ? 0 : 1;
      std::copy(unit.begin(), unit.end(), units.begin() + row * dim());
    }
    std::vector<RowId> allowed;
    Filter filter;
    if (only) filter.only = ids_of(*only, allowed);
    BatchSearch batch{*partition_,
                      units,
                      is_zero,
                      width,
                      ef.value,
                      exact,
                      filter,
                      ids.mutable_data(),
                      scores.mutable_data()};
    with_shared_lock(
        partition_->mutex(), [] { return kLongWork + 1; },
        [&] { batch.answer(threads.value); });
    return py::make_tuple(std::move(ids), std::move(scores));
  }

  Index(Ref<Partition> partition, std::string kind)
      : partition_(std::move(partition)), kind_(std::move(kind)) {}

  Ref<Partition> partition_;
  std::string kind_;
};

}  // namespace

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::Index>
    : MadeInstanceCaster<vecall::bindings::Index> {};

}  // namespace pybind11::detail

namespace vecall::bindings {

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
  def_strict_init(bound,
                  py::init<IndexDim, const std::string&, Links, BuildBreadth,
                           const std::string&, bool, FlatBytes, Seed>(),
                  "dim"_a, "kind"_a = "auto", "m"_a = Links{16},
                  "ef_construction"_a = BuildBreadth{100}, "codec"_a = "int4+8",
                  "keep_float32"_a = false, "flat_bytes"_a = FlatBytes{4 << 20},
                  "seed"_a = Seed{kRotationSeed});
  def_strict(bound, "add", &Index::add, "ids"_a, "vectors"_a,
             R"(Adds vectors, or replaces those whose id is here already.

Arrays of int64 and float32 are taken as they are; other integers and numbers, and lists
of them, are converted.

Args:
    ids: Integers (n,), or one. The last of equal ids wins.
    vectors: Numbers (n, dim), or (dim,) for one id; finite as float32 and not zero.

Raises:
    InvalidArgumentError: a value is NaN, Inf or a zero vector; nothing was added.
    InvalidTypeError: no numbers, or another shape.
    DimensionError: vectors of another length.)");
  def_strict(bound, "search", &Index::search, "query"_a, "k"_a, "ef"_a = Ef{64},
             py::kw_only(), "exact"_a = false, "only"_a = py::none(),
             R"(Finds the k nearest vectors.

Args:
    query: Numbers (dim,), finite. A zero vector finds nothing. Many queries (n, dim) are
        answered as by `search_batch`.
    k: At least 1; fewer come back when fewer are there.
    ef: Breadth of a search of the graph; scans do not use it.
    exact: Whether to look at every row, and to score from float32 where it is kept.
    only: Integers (m,), the ids that may be found, or a mask, bools (len(index),) in the
        order of `ids`; None means all.

Returns:
    ids int64 (<= k,) and cosines float32 (<= k,), best first. Cosines are cut to
    [-1, 1] after they are ordered; equal ones come by smaller id.

Raises:
    InvalidArgumentError: k < 1, NaN or Inf.
    InvalidTypeError: not an array of that dtype and shape.
    DimensionError: a query of another length.)");
  def_strict(bound, "search_batch", &Index::search_batch, "queries"_a, "k"_a,
             "ef"_a = Ef{64}, py::kw_only(), "exact"_a = false,
             "threads"_a = ThreadCount{1}, "only"_a = py::none(),
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
    has fewer hits, id -1 and score -inf. An empty index gives one such column.)");
  def_strict(bound, "remove", &Index::remove, "ids"_a,
             R"(Removes vectors by id, integers (n,) or one; unknown ids are ignored.

Returns:
    How many of them were here.)");
  def_strict(bound, "build", &Index::build,
             "Links now what the background would link by and by.");
  def_strict(
      bound, "save", &Index::save, "path"_a,
      R"(Writes the index to a file, which then is the new one whole or the old one.

The graph goes with it, and of removed vectors that the graph still passes through, their
4-bit codes.

Raises:
    StorageFullError: no room was left.
    StorageError: the file could not be written.)");
  def_strict_static(bound, "load", &Index::load, "path"_a,
                    R"(Reads an index that `save` wrote.

Raises:
    IncompatibleFileError: the file is no snapshot of vecall, or of another version.
    CorruptFileError: the file is damaged.
    MissingFileError: there is no such file.
    StorageError: the file could not be read.)");
  def_strict(bound, "__contains__", &Index::contains, "id"_a);
  def_strict(bound, "__len__", &Index::size);
  def_strict(bound, "__repr__", &Index::repr);
  def_strict(
      bound, "__iter__",
      [](const Index& self) -> py::typing::Iterator<py::int_> {
        return py::iter(self.ids().attr("tolist")());
      },
      "Goes over the ids, as they are now.");
  bound.def(
      py::pickle([](const Index& self) { return self.state(); },
                 [](const py::bytes& state) { return Index::from_state(state); }));
  bound.def_property_readonly(
      "ids", &Index::ids,
      "The ids, int64 (len(index),), in an order that stays until "
      "rows are added or removed.");
  bound.def_property_readonly("kind", &Index::kind, "'auto', 'flat' or 'hnsw'.");
  bound.def_property_readonly("dim", &Index::dim, "Length of every vector.");
  bound.def_property_readonly("linked", &Index::linked,
                              "Vectors that the graph answers for.");
  bound.def_property_readonly("nbytes", &Index::nbytes, "Memory that the index holds.");
}

}  // namespace vecall::bindings

#include <pybind11/stl.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "bindings.hpp"
#include "casters.hpp"
#include "gil.hpp"
#include "gil_release.hpp"
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

Ref<Partition> make_partition(Dim dim, Codec codec, bool keep_float32,
                              const GraphOptions& graph) {
  if (dim.value < 1 || dim.value > kMaxDim) {
    throw InvalidArgumentError("dim: must be from 1 to 65536");
  }
  kernels::active();
  return make_ref<Partition>(
      make_ref<const PartitionSpace>(dim.value, codec, keep_float32, graph));
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
  Index(Dim dim, const std::string& kind, Links m, BuildBreadth ef_construction,
        const std::string& codec, bool keep_float32, FlatBytes flat_bytes)
      : partition_(make_partition(dim, parse_codec(codec), keep_float32,
                                  parse_graph(kind, m, ef_construction, flat_bytes))) {}

  void add(const IdVector& ids, const FloatMatrix& vectors) {
    require_dim(vectors.columns, dim());
    if (ids.rows != vectors.rows) {
      throw InvalidArgumentError("ids and vectors: must have the same number of rows");
    }
    RowBatch batch;
    batch.ids.assign(ids.values.begin(), ids.values.end());
    batch.has_vector.assign(ids.rows, 1);
    const GilRelease release;
    batch.unit_vectors = normalised_rows(vectors.values, dim(), batch.has_vector);
    Partition::check(batch, dim());
    add_rows(partition_, batch);
  }

  HitArrays search(const FloatVector& query, Count k, Ef ef, bool exact,
                   const std::optional<IdVector>& only) const {
    thread_local std::vector<float> unit;
    thread_local std::vector<Hit> hits;
    hits.clear();
    if (to_unit(query.values, dim(), unit)) {
      SearchQuery asked{unit, k.value, ef.value, exact, {}};
      if (only) asked.filter.only = only->values;
      with_shared_lock(
          partition_->mutex(), [&] { return partition_->search_bytes(ef.value); },
          [&] { partition_->search(asked, hits); });
    }
    return to_arrays(hits);
  }

  HitArrays search_batch(const FloatMatrix& queries, Count k, Ef ef, bool exact,
                         Threads threads) const {
    require_dim(queries.columns, dim());
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
    Batch batch{*partition_,
                units,
                is_zero,
                width,
                ef.value,
                exact,
                ids.mutable_data(),
                scores.mutable_data()};
    with_shared_lock(
        partition_->mutex(), [] { return kLongWork + 1; },
        [&] { batch.answer(threads.value); });
    return py::make_tuple(std::move(ids), std::move(scores));
  }

  std::size_t remove(const IdVector& ids) {
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
    Ref<Partition> partition;
    {
      const GilRelease release;
      const std::vector<std::byte> bytes = read_snapshot_file(path.value);
      const SnapshotReader reader(bytes);
      if (reader.header().dim == 0) refuse_snapshot("holds no vectors");
      partition =
          PartitionSnapshot::restore(reader, PartitionSnapshot::space_of(reader));
      request_links(partition);
    }
    return std::unique_ptr<Index>(new Index(std::move(partition)));
  }

  [[nodiscard]] bool contains(const py::object& number) const {
    PyObject* index =
        PyBool_Check(number.ptr()) ? nullptr : PyNumber_Index(number.ptr());
    if (index == nullptr) {
      PyErr_Clear();
      throw InvalidTypeError("id: expected an integer");
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
  struct Batch {
    const Partition& partition;
    const std::vector<float>& units;
    const std::vector<std::uint8_t>& is_zero;
    std::size_t width;
    std::size_t ef;
    bool exact;
    std::int64_t* ids;
    float* scores;

    void answer(std::size_t threads) {
      const std::size_t most =
          std::max<std::size_t>(1, std::thread::hardware_concurrency());
      const std::size_t count = std::min({threads, most, is_zero.size()});
      std::vector<std::exception_ptr> failures(std::max<std::size_t>(1, count));
      const auto guarded = [this, count, &failures](std::size_t i) {
        try {
          answer_some(i, std::max<std::size_t>(1, count));
        } catch (...) {
          failures[i] = std::current_exception();
        }
      };
      {
        std::vector<std::jthread> helpers;
        for (std::size_t i = 1; i < count; ++i) helpers.emplace_back(guarded, i);
        guarded(0);
      }
      for (const std::exception_ptr& failure : failures) {
        if (failure) std::rethrow_exception(failure);
      }
    }
    void answer_some(std::size_t begin, std::size_t step) {
      const std::size_t dim = partition.dim();
      std::vector<Hit> hits;
      for (std::size_t row = begin; row < is_zero.size(); row += step) {
        if (is_zero[row] != 0) continue;
        const std::span<const float> unit(units.data() + row * dim, dim);
        partition.search({unit, width, ef, exact, {}}, hits);
        for (std::size_t i = 0; i < hits.size(); ++i) {
          ids[row * width + i] = hits[i].id;
          scores[row * width + i] = hits[i].score;
        }
      }
    }
  };

  explicit Index(Ref<Partition> partition) : partition_(std::move(partition)) {}

  Ref<Partition> partition_;
};

}  // namespace

void bind_index(py::module_& module) {
  static const std::string doc =
      std::string(R"(Nearest neighbours by cosine in one set of vectors.

Safe to share between threads. Vectors are normalised once, when they are added.

Args:
    dim: Length of every vector, 1 to 65,536.)") +
      kOptionsDoc + R"(
Raises:
    InvalidArgumentError: an option is outside what is allowed.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)";
  py::class_<Index> bound(module, "Index", doc.c_str());
  def_strict_init(bound,
                  py::init<Dim, const std::string&, Links, BuildBreadth,
                           const std::string&, bool, FlatBytes>(),
                  "dim"_a, "kind"_a = "auto", "m"_a = Links{16},
                  "ef_construction"_a = BuildBreadth{100}, "codec"_a = "int4+8",
                  "keep_float32"_a = false, "flat_bytes"_a = FlatBytes{4 << 20});
  def_strict(bound, "add", &Index::add, "ids"_a, "vectors"_a,
             R"(Adds vectors, or replaces those whose id is here already.

Args:
    ids: int64 (n,). The last of equal ids wins.
    vectors: float32 (n, dim), finite and not zero.

Raises:
    InvalidArgumentError: a value is NaN, Inf or a zero vector; nothing was added.
    InvalidTypeError: not an array of that dtype and shape.
    DimensionError: vectors of another length.)");
  def_strict(bound, "search", &Index::search, "query"_a, "k"_a, "ef"_a = Ef{64},
             py::kw_only(), "exact"_a = false, "only"_a = py::none(),
             R"(Finds the k nearest vectors.

Args:
    query: float32 (dim,), finite. A zero vector finds nothing.
    k: At least 1; fewer come back when fewer are there.
    ef: Breadth of a search of the graph; scans do not use it.
    exact: Whether to look at every row, and to score from float32 where it is kept.
    only: int64 (m,), the ids that may be found; None means all.

Returns:
    ids int64 (<= k,) and cosines float32 (<= k,), best first, equal ones by smaller id.

Raises:
    InvalidArgumentError: k < 1, NaN or Inf.
    InvalidTypeError: not an array of that dtype and shape.
    DimensionError: a query of another length.)");
  def_strict(bound, "search_batch", &Index::search_batch, "queries"_a, "k"_a,
             "ef"_a = Ef{64}, py::kw_only(), "exact"_a = false,
             "threads"_a = Threads{1},
             R"(Answers many queries, each as `search` would.

Args:
    queries: float32 (n, dim).
    k: At least 1.
    ef: As in `search`.
    exact: As in `search`.
    threads: How many threads share the work, at most one a processor.

Returns:
    ids int64 (n, min(k, len(index))) and cosines float32 of the same shape; where a row
    has fewer hits, id -1 and score -inf. An empty index gives one such column.)");
  def_strict(bound, "remove", &Index::remove, "ids"_a,
             R"(Removes vectors by id, int64 (n,); unknown ids are ignored.

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
    StorageError: the file could not be read.)");
  def_strict(bound, "__contains__", &Index::contains, "id"_a);
  def_strict(bound, "__len__", &Index::size);
  bound.def_property_readonly("dim", &Index::dim, "Length of every vector.");
  bound.def_property_readonly("linked", &Index::linked,
                              "Vectors that the graph answers for.");
  bound.def_property_readonly("nbytes", &Index::nbytes, "Memory that the index holds.");
}

}  // namespace vecall::bindings

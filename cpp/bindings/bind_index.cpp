#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "bindings.hpp"
#include "casters.hpp"
#include "gil.hpp"
#include "kernels/dispatch.hpp"
#include "partition/partition.hpp"
#include "query.hpp"
#include "results.hpp"
#include "strict.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

// One partition without words or names. `ef` is part of the signature so that callers
// need not change when a partition grows into a graph; an exact scan has no use for it.
class Index {
 public:
  Index(Dim dim, const std::string& kind) : partition_(dim.value) {
    if (dim.value < 1 || dim.value > kMaxDim) {
      throw InvalidArgumentError("dim: must be from 1 to 65536");
    }
    if (kind != "auto" && kind != "flat") {
      throw InvalidArgumentError("kind: must be 'auto' or 'flat'");
    }
    kernels::active();
  }

  void add(const IdVector& ids, const FloatMatrix& vectors) {
    require_dim(vectors.columns, partition_.dim());
    if (ids.rows != vectors.rows) {
      throw InvalidArgumentError("ids and vectors: must have the same number of rows");
    }
    RowBatch batch;
    batch.ids.assign(ids.values.begin(), ids.values.end());
    batch.has_vector.assign(ids.rows, 1);
    const py::gil_scoped_release release;
    batch.unit_vectors =
        normalised_rows(vectors.values, partition_.dim(), batch.has_vector);
    Partition::check(batch, partition_.dim());
    const std::unique_lock lock(partition_.mutex());
    partition_.add(batch);
  }

  HitArrays search(const FloatVector& query, Count k, Ef) const {
    thread_local std::vector<float> unit;
    thread_local std::vector<Hit> hits;
    hits.clear();
    if (to_unit(query.values, partition_.dim(), unit)) {
      with_shared_lock(
          partition_.mutex(), [&] { return partition_.size() * partition_.dim(); },
          [&] { partition_.search(unit, Filter{}, k.value, hits); });
    }
    return to_arrays(hits);
  }

  HitArrays search_batch(const FloatMatrix& queries, Count k, Ef) const {
    require_dim(queries.columns, partition_.dim());
    const auto columns = std::min(k.value, std::size_t{1} << 31);
    const std::size_t width = std::min(columns, std::max<std::size_t>(1, size()));
    Array<std::int64_t> ids({queries.rows, width});
    Array<float> scores({queries.rows, width});
    std::fill_n(ids.mutable_data(), ids.size(), -1);
    std::fill_n(scores.mutable_data(), scores.size(),
                -std::numeric_limits<float>::infinity());
    std::int64_t* id = ids.mutable_data();
    float* score = scores.mutable_data();
    std::vector<float> copy(queries.values.begin(), queries.values.end());
    with_shared_lock(
        partition_.mutex(), [] { return kLongWork + 1; },
        [&] {
          std::vector<float> unit;
          std::vector<Hit> hits;
          for (std::size_t row = 0; row < queries.rows; ++row) {
            const std::span<const float> query(copy.data() + row * queries.columns,
                                               queries.columns);
            if (!to_unit(query, partition_.dim(), unit)) continue;
            partition_.search(unit, Filter{}, width, hits);
            for (std::size_t i = 0; i < hits.size(); ++i) {
              id[row * width + i] = hits[i].id;
              score[row * width + i] = hits[i].score;
            }
          }
        });
    return py::make_tuple(std::move(ids), std::move(scores));
  }

  std::size_t remove(const IdVector& ids) {
    const py::gil_scoped_release release;
    const std::unique_lock lock(partition_.mutex());
    return partition_.remove(ids.values);
  }

  [[nodiscard]] bool contains(const py::int_& number) const {
    int overflow = 0;
    const long long id = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0) return false;  // no int64, so no id
    bool found = false;
    with_shared_lock(partition_.mutex(), [&] { found = partition_.contains(id); });
    return found;
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    with_shared_lock(partition_.mutex(), [&] { count = partition_.size(); });
    return count;
  }
  [[nodiscard]] std::size_t nbytes() const {
    std::size_t bytes = 0;
    with_shared_lock(partition_.mutex(), [&] { bytes = partition_.nbytes(); });
    return bytes;
  }
  [[nodiscard]] std::size_t dim() const noexcept { return partition_.dim(); }

 private:
  Partition partition_;
};

}  // namespace

void bind_index(py::module_& module) {
  py::class_<Index> bound(module, "Index",
                          R"(Nearest neighbours by cosine in one set of vectors.

Safe to share between threads. Vectors are normalised once, when they are added.

Args:
    dim: Length of every vector, 1 to 65,536.
    kind: 'auto' or 'flat'; both scan exactly.

Raises:
    InvalidArgumentError: dim or kind is outside what is allowed.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)");
  def_strict_init(bound, py::init<Dim, const std::string&>(), "dim"_a,
                  "kind"_a = "auto");
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
             R"(Finds the k nearest vectors.

Args:
    query: float32 (dim,), finite. A zero vector finds nothing.
    k: At least 1; fewer come back when fewer are there.
    ef: Breadth of an approximate search; exact scans do not use it.

Returns:
    ids int64 (<= k,) and cosines float32 (<= k,), best first, equal ones by smaller id.

Raises:
    InvalidArgumentError: k < 1, NaN or Inf.
    InvalidTypeError: not an array of that dtype and shape.
    DimensionError: a query of another length.)");
  def_strict(bound, "search_batch", &Index::search_batch, "queries"_a, "k"_a,
             "ef"_a = Ef{64},
             R"(Answers many queries, each as `search` would.

Args:
    queries: float32 (n, dim).
    k: At least 1.
    ef: As in `search`.

Returns:
    ids int64 (n, min(k, len(index))) and cosines float32 of the same shape; where a row
    has fewer hits, id -1 and score -inf. An empty index gives one such column.)");
  def_strict(bound, "remove", &Index::remove, "ids"_a,
             R"(Removes vectors by id, int64 (n,); unknown ids are ignored.

Returns:
    How many of them were here.)");
  def_strict(bound, "__contains__", &Index::contains, "id"_a);
  def_strict(bound, "__len__", &Index::size);
  bound.def_property_readonly("dim", &Index::dim, "Length of every vector.");
  bound.def_property_readonly("nbytes", &Index::nbytes, "Memory that the index holds.");
}

}  // namespace vecall::bindings

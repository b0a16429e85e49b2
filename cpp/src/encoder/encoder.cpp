#include "vecall/encoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "encoder/packed_matrix.hpp"
#include "encoder/prepared.hpp"
#include "encoder/tokenizer.hpp"
#include "kernels/dispatch.hpp"
#include "vecall/assert.hpp"
#include "vecall/errors.hpp"

namespace vecall {

namespace {

constexpr std::size_t kBranchDim = 256;
constexpr std::size_t kHiddenDim = 320;
constexpr std::array<std::size_t, 3> kOrders = {2, 3, 5};  // pieces that a branch sees
constexpr std::size_t kBranchDims = kOrders.size() * kBranchDim;
constexpr std::size_t kFeatures = Encoder::kDim + kBranchDims;

constexpr std::size_t kPad = 2;    // rows of zeros at both ends of a text's pieces
constexpr std::size_t kReach = 4;  // pieces to each side that a feature depends on
constexpr std::size_t kMostPieces = 128;    // that are encoded at once
constexpr std::size_t kTextsTogether = 16;  // whose last layers are multiplied at once

// Pieces that one branch has before the one that it belongs to.
constexpr std::size_t left_of(std::size_t order) noexcept {
  return (order - 1) / 2;
}

using Values = std::vector<float>;

// Reads arrays by name.
class Reader {
 public:
  explicit Reader(const Encoder::Arrays& arrays) : arrays_(arrays) {}

  [[nodiscard]] std::span<const float> take(std::string_view name,
                                            std::size_t size) const {
    const auto found = arrays_.find(name);
    if (found == arrays_.end() || found->second.size() != size) {
      refuse(name, " is missing or has another size");
    }
    return found->second;
  }
  [[nodiscard]] Values values(std::string_view name, std::size_t size) const {
    const auto values = take(name, size);
    if (!std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); })) {
      refuse(name, " has a value that is not finite");
    }
    return {values.begin(), values.end()};
  }
  [[nodiscard]] PackedMatrix matrix(std::string_view name, std::size_t depth,
                                    std::size_t columns) const {
    PackedMatrix packed(depth, columns);
    set_columns(packed, 0, name, depth, columns);
    return packed;
  }
  void set_columns(PackedMatrix& packed, std::size_t first, std::string_view name,
                   std::size_t depth, std::size_t columns) const {
    if (!packed.set_columns(first, take(name, depth * columns))) {
      refuse(name, " has a value that is no multiple of its step");
    }
  }
  [[noreturn]] static void refuse(std::string_view name, const char* why) {
    throw IncompatibleDataError("arrays: " + std::string(name) + why);
  }

 private:
  const Encoder::Arrays& arrays_;
};

std::string named(const char* name, std::size_t order) {
  return name + std::to_string(order);
}

// Two convolutions over neighbouring pieces, each with what it began with added.
struct Branch {
  PackedMatrix first;
  PackedMatrix second;
  Values first_bias;
  Values second_bias;

  Branch() = default;
  Branch(const Reader& reader, std::size_t order)
      : first(reader.matrix(named("w1_", order), order * kBranchDim, kBranchDim)),
        second(reader.matrix(named("w2_", order), order * kBranchDim, kBranchDim)),
        first_bias(reader.values(named("b1_", order), kBranchDim)),
        second_bias(reader.values(named("b2_", order), kBranchDim)) {}

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.first, self.second, self.first_bias, self.second_bias);
  }
  [[nodiscard]] bool is_of(std::size_t order) const noexcept {
    return first.has_shape(order * kBranchDim, kBranchDim) &&
           second.has_shape(order * kBranchDim, kBranchDim) &&
           first_bias.size() == kBranchDim && second_bias.size() == kBranchDim;
  }
};

struct Weights {
  const kernels::KernelTable& kernel;
  Tokenizer tokenizer;
  std::span<const std::uint8_t> table;
  Values scale;  // of the table's rows: row i has step i modulo their number
  Values least;  // what a zero of such a row stands for
  float epsilon = 0;
  PackedMatrix projection{Encoder::kDim, kBranchDims};
  Values projection_bias;  // (number of steps, kBranchDims), with the least values
  Values projection_gain;
  Values projection_shift;
  std::vector<Branch> branches;
  Values gain;
  Values shift;
  PackedMatrix pooled;
  Values pooled_bias;
  PackedMatrix d0, d1, d2, d3, p1, p3;

  Weights(std::string_view pieces, std::span<const std::uint8_t> rows,
          const Reader& reader, std::size_t steps)
      : kernel(kernels::active()),
        tokenizer(pieces),
        table(rows),
        scale(reader.values("scale", steps)),
        least(reader.values("lo", steps)),
        epsilon(reader.values("eps", 1)[0]),
        gain(reader.values("ln_g", kFeatures)),
        shift(reader.values("ln_b", kFeatures)),
        pooled(reader.matrix("cnn_W", kFeatures, Encoder::kDim)),
        pooled_bias(reader.values("cnn_b", Encoder::kDim)),
        d0(reader.matrix("d0", Encoder::kDim, kHiddenDim)),
        d1(reader.matrix("d1", kHiddenDim, kHiddenDim)),
        d2(reader.matrix("d2", kHiddenDim, Encoder::kDim)),
        d3(reader.matrix("d3", Encoder::kDim, Encoder::kDim)),
        p1(reader.matrix("p1", Encoder::kDim, kHiddenDim)),
        p3(reader.matrix("p3", kHiddenDim, Encoder::kDim)) {
    if (!has_rows()) Reader::refuse("table", " has fewer rows than there are pieces");
    if (*std::max_element(table.begin(), table.end()) > 127 || !(epsilon > 0)) {
      Reader::refuse("table or eps", " is out of range");
    }
    Values bias;
    for (const std::size_t order : kOrders) {
      reader.set_columns(projection, bias.size(), named("proj", order), Encoder::kDim,
                         kBranchDim);
      const auto append = [&](const char* name, Values& to) {
        const Values part = reader.values(named(name, order), kBranchDim);
        to.insert(to.end(), part.begin(), part.end());
      };
      append("proj_b", bias);
      append("ln_g", projection_gain);
      append("ln_b", projection_shift);
      branches.emplace_back(reader, order);
    }
    for (const float of_zero : least) {
      for (std::size_t i = 0; i < kBranchDims; ++i) {
        projection_bias.push_back(of_zero * projection.column_sum(i) + bias[i]);
      }
    }
  }

  Weights(std::span<const std::uint8_t> rows, PreparedReader& prepared)
      : kernel(kernels::active()), table(rows) {
    each(*this, prepared);
    if (!prepared.is_at_end() || !has_rows() || !has_sizes()) {
      throw CorruptDataError("prepared: has another shape");
    }
  }

  template <class Self, class Archive>
  static void each(Self& self, Archive& archive) {
    archive(self.tokenizer, self.scale, self.least, self.epsilon, self.projection,
            self.projection_bias, self.projection_gain, self.projection_shift,
            self.branches, self.gain, self.shift, self.pooled, self.pooled_bias,
            self.d0, self.d1, self.d2, self.d3, self.p1, self.p3);
  }

  [[nodiscard]] bool has_rows() const noexcept {
    return table.size() % Encoder::kDim == 0 &&
           table.size() / Encoder::kDim >= tokenizer.size();
  }
  [[nodiscard]] bool has_sizes() const noexcept {
    bool fits = !scale.empty() && least.size() == scale.size() &&
                projection_bias.size() == scale.size() * kBranchDims &&
                branches.size() == kOrders.size();
    for (std::size_t i = 0; fits && i < kOrders.size(); ++i) {
      fits = branches[i].is_of(kOrders[i]);
    }
    return fits && projection.has_shape(Encoder::kDim, kBranchDims) &&
           projection_gain.size() == kBranchDims &&
           projection_shift.size() == kBranchDims && gain.size() == kFeatures &&
           shift.size() == kFeatures && pooled.has_shape(kFeatures, Encoder::kDim) &&
           pooled_bias.size() == Encoder::kDim &&
           d0.has_shape(Encoder::kDim, kHiddenDim) &&
           d1.has_shape(kHiddenDim, kHiddenDim) &&
           d2.has_shape(kHiddenDim, Encoder::kDim) &&
           d3.has_shape(Encoder::kDim, Encoder::kDim) &&
           p1.has_shape(Encoder::kDim, kHiddenDim) &&
           p3.has_shape(kHiddenDim, Encoder::kDim);
  }

  [[nodiscard]] const std::uint8_t* row_of(std::int32_t piece) const noexcept {
    return table.data() + static_cast<std::size_t>(piece) * Encoder::kDim;
  }
};

// Pieces that lie one after another in a text. The features of those from `first` to
// `last` are added to `sums`; the others are their neighbours.
struct Segment {
  std::span<const std::int32_t> pieces;
  std::size_t first;
  std::size_t last;
  float* sums;  // (kFeatures,)
};

// Memory that grows without being filled.
template <class T>
class Buffer {
 public:
  void resize(std::size_t size) {
    if (size <= size_) return;
    values_ = std::unique_ptr<T[]>(new T[size]);
    size_ = size;
  }
  [[nodiscard]] T* data() noexcept { return values_.get(); }
  T& operator[](std::size_t i) noexcept { return values_[i]; }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t size_ = 0;
};

// The arrays that a call of encode() works in.
class Workspace {
 public:
  explicit Workspace(const Weights& weights)
      : weights_(weights), kernel_(weights.kernel), steps_(*kernel_.encoder) {}

  // Adds up the features of all segments.
  void add_features(std::span<const Segment> segments);

  // The vectors (count, kDim) of texts of so many pieces whose features were added up.
  void finish(float* sums, std::span<const std::size_t> lengths, float* out);

 private:
  void project(std::span<const Segment> segments);
  void convolve(std::span<const Segment> segments, std::size_t branch,
                const PackedMatrix& matrix);
  void multiply(const PackedMatrix& matrix, std::size_t count, bool are_bytes,
                float* out) {
    kernel_.multiply(
        matrix.view(),
        {values_.data(), starts_.data(), factors_.data(), count, are_bytes}, out);
  }
  // The product of `count` rows of floats.
  void dense(const float* in, std::size_t depth, std::size_t count,
             const PackedMatrix& matrix, Values& out);

  const Weights& weights_;
  const kernels::KernelTable& kernel_;
  const kernels::EncoderSteps& steps_;
  Buffer<float> hidden_;    // (pieces, kBranchDims)
  Buffer<float> products_;  // (pieces, kBranchDim)
  Buffer<std::int16_t> values_;
  Buffer<std::uint32_t> starts_;
  Buffer<float> factors_;
};

void Workspace::project(std::span<const Segment> segments) {
  const std::size_t modulus = weights_.scale.size();
  constexpr std::size_t kLine = 64;
  for (const Segment& segment : segments) {  // most rows are in no cache
    for (const std::int32_t piece : segment.pieces) {
      for (std::size_t at = 0; at < Encoder::kDim; at += kLine) {
        __builtin_prefetch(weights_.row_of(piece) + at);
      }
    }
  }
  std::size_t row = 0;
  for (const Segment& segment : segments) {
    for (const std::int32_t piece : segment.pieces) {
      const auto id = static_cast<std::size_t>(piece);
      const std::uint8_t* const bytes = weights_.row_of(piece);
      const float scale = weights_.scale[id % modulus];
      std::copy_n(bytes, Encoder::kDim, &values_[row * Encoder::kDim]);
      starts_[row] = static_cast<std::uint32_t>(row * Encoder::kDim);
      factors_[row] = scale;
      ++row;
    }
  }
  multiply(weights_.projection, row, true, hidden_.data());
  row = 0;
  for (const Segment& segment : segments) {
    for (const std::int32_t piece : segment.pieces) {
      float* const hidden = &hidden_[row++ * kBranchDims];
      const std::size_t at = static_cast<std::size_t>(piece) % modulus;
      steps_.add(&weights_.projection_bias[at * kBranchDims], kBranchDims, hidden);
      steps_.normalise(hidden, kBranchDims, weights_.projection_gain.data(),
                       weights_.projection_shift.data(), weights_.epsilon);
    }
  }
}

// A branch's part of the hidden values, multiplied by a matrix with those of the
// neighbours. The values of a text have one step.
void Workspace::convolve(std::span<const Segment> segments, std::size_t branch,
                         const PackedMatrix& matrix) {
  std::size_t row = 0;
  std::size_t padded = 0;
  const auto pad = [&] {
    std::fill_n(&values_[padded * kBranchDim], kPad * kBranchDim, std::int16_t{0});
    padded += kPad;
  };
  pad();
  for (const Segment& segment : segments) {
    const std::size_t count = segment.pieces.size();
    const float* const first = &hidden_[row * kBranchDims + branch * kBranchDim];
    float largest = 1e-30F;
    for (std::size_t i = 0; i < count; ++i) {
      largest = std::max(largest, steps_.largest(first + i * kBranchDims, kBranchDim));
    }
    const float factor = static_cast<float>(kernels::kMostValue) / largest;
    for (std::size_t i = 0; i < count; ++i, ++row, ++padded) {
      steps_.round(first + i * kBranchDims, kBranchDim, factor,
                   &values_[padded * kBranchDim]);
      starts_[row] =
          static_cast<std::uint32_t>((padded - left_of(kOrders[branch])) * kBranchDim);
      factors_[row] = largest / static_cast<float>(kernels::kMostValue);
    }
    pad();
  }
  multiply(matrix, row, false, products_.data());
}

void Workspace::add_features(std::span<const Segment> segments) {
  std::size_t rows = 0;
  for (const Segment& segment : segments) rows += segment.pieces.size();
  hidden_.resize(rows * kBranchDims);
  products_.resize(rows * kBranchDim);
  values_.resize(std::max(rows * Encoder::kDim,
                          (rows + kPad * (segments.size() + 1)) * kBranchDim));
  starts_.resize(rows);
  factors_.resize(rows);
  project(segments);
  for (std::size_t i = 0; i < kOrders.size(); ++i) {
    const Branch& branch = weights_.branches[i];
    const auto rectify = [&](const Values& bias) {
      for (std::size_t row = 0; row < rows; ++row) {
        float* const hidden = &hidden_[row * kBranchDims + i * kBranchDim];
        steps_.rectify(&products_[row * kBranchDim], bias.data(), hidden, kBranchDim,
                       hidden);
      }
    };
    convolve(segments, i, branch.first);
    rectify(branch.first_bias);
    convolve(segments, i, branch.second);
    rectify(branch.second_bias);
  }
  const std::size_t modulus = weights_.scale.size();
  std::array<float, kFeatures>
      features{};  // the piece's own values, then its branches'
  std::size_t row = 0;
  for (const Segment& segment : segments) {
    for (std::size_t i = segment.first; i < segment.last; ++i) {
      const std::int32_t piece = segment.pieces[i];
      const std::size_t at = static_cast<std::size_t>(piece) % modulus;
      steps_.unpack(weights_.row_of(piece), Encoder::kDim, weights_.scale[at],
                    weights_.least[at], features.data());
      std::copy_n(&hidden_[(row + i) * kBranchDims], kBranchDims,
                  features.begin() + Encoder::kDim);
      steps_.add_normalised(features.data(), kFeatures, weights_.epsilon, segment.sums);
    }
    row += segment.pieces.size();
  }
}

void Workspace::dense(const float* in, std::size_t depth, std::size_t count,
                      const PackedMatrix& matrix, Values& out) {
  values_.resize(count * depth);
  starts_.resize(count);
  factors_.resize(count);
  out.resize(count * matrix.columns());
  for (std::size_t i = 0; i < count; ++i) {
    const float largest = std::max(steps_.largest(in + i * depth, depth), 1e-30F);
    steps_.round(in + i * depth, depth,
                 static_cast<float>(kernels::kMostValue) / largest,
                 &values_[i * depth]);
    starts_[i] = static_cast<std::uint32_t>(i * depth);
    factors_[i] = largest / static_cast<float>(kernels::kMostValue);
  }
  multiply(matrix, count, false, out.data());
}

void Workspace::finish(float* sums, std::span<const std::size_t> lengths, float* out) {
  const std::size_t count = lengths.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<float>(lengths[i]);
    for (std::size_t k = 0; k < kFeatures; ++k) {
      float& sum = sums[i * kFeatures + k];
      sum = sum * weights_.gain[k] + length * weights_.shift[k];
    }
  }
  Values mean;
  dense(sums, kFeatures, count, weights_.pooled, mean);
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<float>(lengths[i]);
    const float scale = 1.0F / std::sqrt(length);
    for (std::size_t k = 0; k < Encoder::kDim; ++k) {
      float& value = mean[i * Encoder::kDim + k];
      value = (value + length * weights_.pooled_bias[k]) * scale;
    }
  }
  const auto rectify = [](Values& values) {
    for (float& value : values) value = std::max(value, 0.0F);
  };
  const auto add = [](const Values& more, Values& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
  };
  Values first;
  Values second;
  Values more;
  dense(mean.data(), Encoder::kDim, count, weights_.d0, first);
  rectify(first);
  dense(mean.data(), Encoder::kDim, count, weights_.p1, second);
  dense(first.data(), kHiddenDim, count, weights_.d1, more);
  add(more, second);
  rectify(second);
  dense(second.data(), kHiddenDim, count, weights_.d2, first);
  rectify(first);
  dense(second.data(), kHiddenDim, count, weights_.p3, mean);
  dense(first.data(), Encoder::kDim, count, weights_.d3, more);
  add(more, mean);
  steps_.tanh(mean.data(), mean.size());
  for (std::size_t i = 0; i < count; ++i) {
    const float* const row = &mean[i * Encoder::kDim];
    const double squares = kernel_.squares(row, Encoder::kDim);
    kernel_.scale(row, Encoder::kDim,
                  1.0 / std::sqrt(std::max(squares, double{weights_.epsilon})),
                  out + i * Encoder::kDim);
  }
}

}  // namespace

struct Encoder::State : Weights {
  using Weights::Weights;
};

Encoder::Encoder(std::string_view pieces, std::span<const std::uint8_t> table,
                 const Arrays& arrays) {
  const auto scale = arrays.find("scale");
  const std::size_t steps = scale == arrays.end() ? 0 : scale->second.size();
  if (steps == 0) Reader::refuse("scale", " is missing");
  state_ = std::make_unique<const State>(pieces, table, Reader(arrays), steps);
}

namespace {

// Checksums of the prepared bytes and of the table, at the end of the former.
std::array<std::uint32_t, 2> checksums_of(std::string_view prepared,
                                          std::span<const std::uint8_t> table) {
  const auto crc32c = kernels::active().crc32c;
  return {crc32c(0, reinterpret_cast<const std::uint8_t*>(prepared.data()),
                 prepared.size()),
          crc32c(0, table.data(), table.size())};
}

}  // namespace

Encoder::Encoder(std::string_view prepared, std::span<const std::uint8_t> table) {
  std::array<std::uint32_t, 2> expected{};
  const std::size_t end = prepared.size() - std::min(prepared.size(), sizeof(expected));
  std::string_view(prepared).substr(end).copy(reinterpret_cast<char*>(expected.data()),
                                              sizeof(expected));
  const std::string_view members = prepared.substr(0, end);
  if (members.empty() || checksums_of(members, table) != expected) {
    throw CorruptDataError("prepared: it or the table fails its checksum");
  }
  PreparedReader reader(members);
  state_ = std::make_unique<const State>(table, reader);
}

std::string Encoder::prepared() const {
  PreparedWriter writer;
  State::each(*state_, writer);
  std::string& bytes = writer.bytes();
  const auto checksums = checksums_of(bytes, state_->table);
  bytes.append(reinterpret_cast<const char*>(checksums.data()), sizeof(checksums));
  return std::move(bytes);
}

Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::encode(std::span<const std::string_view> texts, std::span<float> out,
                     PauseHook pause) const {
  VECALL_ASSERT(out.size() == texts.size() * kDim);
  Workspace work(*state_);
  std::vector<std::int32_t> pieces;
  std::vector<float> sums;
  std::vector<std::size_t> lengths;
  for (std::size_t begin = 0; begin < texts.size(); begin += kTextsTogether) {
    const auto together =
        texts.subspan(begin, std::min(kTextsTogether, texts.size() - begin));
    sums.assign(together.size() * kFeatures, 0.0F);
    lengths.clear();
    pieces.clear();
    for (const std::string_view text : together) {
      const std::size_t before = pieces.size();
      state_->tokenizer.append_pieces(text, pieces);
      lengths.push_back(pieces.size() - before);
    }
    // Short texts are encoded together; a longer one in parts, which depend on nothing
    // but the text.
    std::vector<Segment> segments;
    std::size_t waiting = 0;
    const auto flush = [&] {
      if (!segments.empty()) work.add_features(segments);
      segments.clear();
      waiting = 0;
      pause();
    };
    const std::int32_t* at = pieces.data();
    for (std::size_t i = 0; i < together.size(); ++i) {
      const std::span all(at, lengths[i]);
      at += lengths[i];
      if (waiting + std::min(all.size(), kMostPieces) > kMostPieces) flush();
      for (std::size_t first = 0; first < all.size(); first += kMostPieces) {
        const std::size_t last = std::min(first + kMostPieces, all.size());
        const std::size_t from = first - std::min(first, kReach);
        const std::size_t to = std::min(last + kReach, all.size());
        segments.push_back({all.subspan(from, to - from), first - from, last - from,
                            &sums[i * kFeatures]});
        waiting += to - from;
        if (waiting >= kMostPieces) flush();
      }
    }
    flush();
    work.finish(sums.data(), lengths, &out[begin * kDim]);
  }
}

std::vector<std::int32_t> Encoder::pieces_of(std::string_view text) const {
  std::vector<std::int32_t> pieces;
  state_->tokenizer.append_pieces(text, pieces);
  return pieces;
}

std::size_t Encoder::nbytes() const noexcept {
  std::size_t bytes = state_->tokenizer.nbytes() + state_->projection.nbytes();
  for (const Branch& branch : state_->branches) {
    bytes += branch.first.nbytes() + branch.second.nbytes();
  }
  for (const PackedMatrix* matrix :
       {&state_->pooled, &state_->d0, &state_->d1, &state_->d2, &state_->d3,
        &state_->p1, &state_->p3}) {
    bytes += matrix->nbytes();
  }
  return bytes;
}

}  // namespace vecall

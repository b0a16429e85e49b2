#include <pybind11/typing.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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

// Scores that differ by this share of the best one or more are a whole step apart.
constexpr double kNear = 0.05;
// The lower bound of a score's factor, which may be 0, before its log is taken.
constexpr double kLeastFactor = 0.01;
// The characters of a text above which its length counts much.
constexpr double kSize = 500.0;
// A longer text counts as one of so many characters: the fit saw few longer ones.
constexpr double kLongest = 4000.0;
constexpr double kMostOdds = 60.0;

using Signals = std::array<double, 8>;

[[noreturn]] void refuse(const char* name, const char* rule) {
  throw InvalidTypeError(std::string(name) + ": expected " + rule);
}

// A number as a double; whole numbers are taken too.
double number_of(py::handle source, const char* name, const char* rule) {
  const double number = PyFloat_AsDouble(source.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(name, rule);
  }
  return number;
}

template <Name kName>
struct Double {
  double value;

  static constexpr auto kHint = const_name("float");
  void load(py::handle source) { value = number_of(source, kName.text, "a float"); }
};

// Numbers of a list or a tuple.
template <Name kName>
struct Doubles {
  std::vector<double> values;

  static constexpr auto kHint = const_name("collections.abc.Sequence[float]");
  void load(py::handle source) {
    constexpr const char* kRule = "a list of floats";
    if (!PyList_Check(source.ptr()) && !PyTuple_Check(source.ptr())) {
      refuse(kName.text, kRule);
    }
    for (const py::handle each : py::reinterpret_borrow<py::sequence>(source)) {
      values.push_back(number_of(each, kName.text, kRule));
    }
  }
};

struct Hits {
  std::vector<RatedHit> values;

  static constexpr auto kHint =
      const_name("list[tuple[float, float, float, float, float, int]]");
  void load(py::handle source) {
    constexpr const char* kRule = "a list of tuples of 6 numbers";
    if (!PyList_Check(source.ptr())) refuse("hits", kRule);
    const auto list = py::reinterpret_borrow<py::list>(source);
    values.reserve(list.size());
    for (const py::handle each : list) {
      if (!PyTuple_Check(each.ptr()) || PyTuple_GET_SIZE(each.ptr()) != 6) {
        refuse("hits", kRule);
      }
      std::array<double, 6> of{};
      for (std::size_t i = 0; i < of.size(); ++i) {
        of[i] = number_of(PyTuple_GET_ITEM(each.ptr(), i), "hits", kRule);
      }
      values.push_back({of[0], of[1], of[2], of[3], of[4], of[5]});
    }
  }
};

std::vector<double> places_of(const std::vector<double>& scores) {
  std::vector<double> found(scores.size(), 0.0);
  const double width = scores.empty() ? 0.0 : kNear * scores[0];
  if (!(width > 0.0)) return found;
  double steps = 0.0;
  double last = scores[0];
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double gap = last - scores[i];
    if (gap > 0.0) {
      steps += gap >= width ? 1.0 : gap / width;
      last = scores[i];
    }
    found[i] = steps;
  }
  return found;
}

std::vector<double> descending_of(const std::vector<double>& chances,
                                  const std::vector<double>& scores) {
  std::vector<double> found(chances.size());
  double confidence = 1.0;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    const bool ties = i > 0 && scores[i] == scores[i - 1];
    if (chances[i] < confidence && !ties) confidence = chances[i];
    found[i] = confidence;
  }
  return found;
}

Signals signals_of(const RatedHit& hit, double place, double relative) {
  const bool seen = hit.covered > 0.0;
  const double root = std::sqrt(hit.covered);
  return {root,
          std::log1p(place),
          relative,
          seen ? 1.0 : 0.0,
          std::log(hit.factor > kLeastFactor ? hit.factor : kLeastFactor),
          root * std::log1p(std::min(hit.size, kLongest) / kSize),
          hit.vectors,
          seen || std::isnan(hit.similarity) ? 0.0 : hit.similarity};
}

using Floats = py::typing::List<py::float_>;
using Rated = py::typing::Tuple<py::float_, py::float_, py::float_>;

template <class Values>
Floats to_list(const Values& values) {
  Floats list(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) list[i] = py::float_(values[i]);
  return list;
}

}  // namespace

double Confidence::probability(std::span<const double> signals) const {
  double odds = bias_;
  for (std::size_t i = 0; i < std::min(weights_.size(), signals.size()); ++i) {
    odds += weights_[i] * signals[i];
  }
  odds = std::min(std::max(odds, -kMostOdds), kMostOdds);
  return 1.0 / (1.0 + std::exp(-odds));
}

std::vector<Rating> Confidence::rate(std::span<const RatedHit> hits, double best,
                                     double vector_scale) const {
  std::vector<double> scores(hits.size());
  for (std::size_t i = 0; i < hits.size(); ++i) scores[i] = hits[i].score;
  const std::vector<double> places = places_of(scores);
  std::vector<double> relatives(hits.size());
  std::vector<double> chances(hits.size());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    relatives[i] = best > 0.0 ? scores[i] / best : 0.0;
    RatedHit hit = hits[i];
    hit.vectors *= vector_scale;
    chances[i] = probability(signals_of(hit, places[i], relatives[i]));
  }
  const std::vector<double> confidences = descending_of(chances, scores);
  std::vector<Rating> rated(hits.size());
  for (std::size_t i = 0; i < hits.size(); ++i) {
    rated[i] = {places[i], relatives[i], confidences[i]};
  }
  return rated;
}

void bind_confidence(py::module_& module) {
  py::class_<Confidence> bound(module, "Confidence",
                               R"(The probability that a memory is relevant.

A logistic regression over signals of a search (Platt, "Probabilistic outputs for support
vector machines", 1999). Does not change once it is made.

Args:
    bias: The log-odds if all signals are 0.
    weights: A weight for each signal, in the order of signals().

Raises:
    InvalidTypeError: no numbers.)");
  def_strict_init(bound,
                  py::init([](Double<"bias"> bias, const Doubles<"weights">& weights) {
                    return Confidence(bias.value, weights.values);
                  }),
                  "bias"_a, "weights"_a);
  def_strict(
      bound, "probability",
      [](const Confidence& self, const Doubles<"signals">& signals) {
        return self.probability(signals.values);
      },
      "signals"_a,
      R"(Returns the probability, in (0, 1), of a memory with these signals.

Signals without a weight, and weights without a signal, do not count.)");
  def_strict(
      bound, "rate",
      [](const Confidence& self, const Hits& hits, Double<"best"> best,
         Double<"vector_scale"> vector_scale) {
        py::typing::List<Rated> list(hits.values.size());
        std::size_t at = 0;
        for (const auto& [place, relative, confidence] :
             self.rate(hits.values, best.value, vector_scale.value)) {
          list[at++] = py::make_tuple(place, relative, confidence);
        }
        return list;
      },
      "hits"_a, "best"_a, "vector_scale"_a, R"(Rates the hits of one search.

Args:
    hits: Of each hit, best first: its score, its coverage of the query, its part from
        vectors, its factor, its cosine (NaN without one) and the characters of its text.
    best: The best score of the search.
    vector_scale: The factor on the parts from vectors; 0 without a query vector.

Returns:
    Of each hit its place, its score as a share of the best one, and its confidence; see
    places() and descending().)");
  def_strict_static(
      bound, "signals",
      [](Double<"covered"> covered, Double<"place"> place, Double<"relative"> relative,
         Double<"factor"> factor, Double<"size"> size, Double<"vectors"> vectors,
         Double<"similarity"> similarity) {
        const RatedHit hit{0.0,          covered.value,    vectors.value,
                           factor.value, similarity.value, size.value};
        using Weighed = py::typing::Tuple<py::float_, py::ellipsis>;
        return Weighed(to_list(signals_of(hit, place.value, relative.value)));
      },
      "covered"_a, "place"_a, "relative"_a, "factor"_a, "size"_a, "vectors"_a,
      "similarity"_a, R"(Returns the 8 signals of a hit.

Args:
    covered: Share of the query's idf whose words are in the memory, in [0, 1].
    place: See places().
    relative: The score divided by the best score.
    factor: The factor on the score; below 0.01 it counts as 0.01.
    size: The characters of the text, of which at most 4,000 count.
    vectors: The part of the score from vectors.
    similarity: The cosine; NaN without one.)");
  def_strict_static(
      bound, "places",
      [](const Doubles<"scores">& scores) { return to_list(places_of(scores.values)); },
      "scores"_a, R"(Returns how many steps each score is below the best one.

From a score to the next is a step if they differ by 5 % of the best score or more, and
less in proportion if they differ less. So distinct scores have their ranks from 0, and a
memory is not less probable because others match as well.

Args:
    scores: The scores of a result, descending.)");
  def_strict_static(
      bound, "descending",
      [](const Doubles<"chances">& chances, const Doubles<"scores">& scores) {
        if (chances.values.size() != scores.values.size()) {
          throw InvalidArgumentError("scores: expected one for each chance");
        }
        return to_list(descending_of(chances.values, scores.values));
      },
      "chances"_a, "scores"_a,
      R"(Returns confidences that agree with the order of a result.

A memory has at most the confidence of the one before it, and exactly that one if their
scores are equal. A confidence depends on the memories before it only, so `top_k` does not
change it up to 50, the number of the engine's candidates.

Args:
    chances: The probability of each memory by itself.
    scores: The score of each memory.)");
  // Without this, protocols 0 and 1 would copy an object without its weights.
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("a Confidence cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

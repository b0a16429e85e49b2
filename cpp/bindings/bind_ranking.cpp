#include <cmath>
#include <string>

#include "bindings.hpp"
#include "casters.hpp"
#include "instances.hpp"
#include "strict.hpp"
#include "vecall/errors.hpp"
#include "vecall/types.hpp"

namespace vecall::bindings {

namespace py = pybind11;
using namespace py::literals;

namespace {

// A weight from 0 to kMost.
template <Name kName, int kMost = 10>
struct Weight {
  float value;

  static constexpr auto kHint = const_name("float");
  void load(py::handle source) {
    Real<kName> number{};
    number.load(source);
    value = number.value;
    if (!(value >= 0.0F && value <= static_cast<float>(kMost))) {
      throw InvalidArgumentError(said_of<kName>("must be within [0, ") +
                                 std::to_string(kMost) + "]");
    }
  }
  [[nodiscard]] py::handle as_python() const {
    // The default as it is written: 0.4 rather than 0.4000000059604645.
    return PyFloat_FromDouble(std::round(static_cast<double>(value) * 1e6) / 1e6);
  }
};

}  // namespace

void bind_ranking(py::module_& module) {
  py::class_<Ranking> bound(module, "Ranking",
                            R"(How much each part of a score weighs in Engine.recall.

Does not change once it is made.

Args:
    dense: Weight of the vectors against the words, 0 to 1.
    coverage_power: Words count by (share of the query that they cover) ** this, 0 to 10,
        as for all that follow.
    next: Share of the next row's score that a row receives.
    previous: Share of the previous row's score.
    after_question: The same where the previous row is a question.
    second: Share of the score of a row two positions away.
    session: Share of the sum of the session's best three.
    question: Factor on the score of a question.
    time: Factor on a row that tells a time, if the query asks for one.
    author: Factor on a row by an author whom the query names.
    favoured: Factor on a row by a favoured author.
    reply: Factor on a row by another author after a row by a favoured author, if that
        row scores at least as high.
    outside: Factor on a row outside of the period that the query names; its square root
        on a row without a time of its own.

Raises:
    InvalidArgumentError: a weight is outside of its range.
    InvalidTypeError: a weight is no number.)");
  constexpr Ranking kDefault;
  def_strict_init(
      bound,
      py::init([](Weight<"dense", 1> dense, Weight<"coverage_power"> coverage_power,
                  Weight<"next"> next, Weight<"previous"> previous,
                  Weight<"after_question"> after_question, Weight<"second"> second,
                  Weight<"session"> session, Weight<"question"> question,
                  Weight<"time"> time, Weight<"author"> author,
                  Weight<"favoured"> favoured, Weight<"reply"> reply,
                  Weight<"outside"> outside) {
        Ranking ranking;
        ranking.dense = dense.value;
        ranking.coverage_power = coverage_power.value;
        ranking.next = next.value;
        ranking.previous = previous.value;
        ranking.after_question = after_question.value;
        ranking.second = second.value;
        ranking.session = session.value;
        ranking.question = question.value;
        ranking.time = time.value;
        ranking.author = author.value;
        ranking.favoured = favoured.value;
        ranking.reply = reply.value;
        ranking.outside = outside.value;
        return ranking;
      }),
      py::kw_only(), "dense"_a = Weight<"dense", 1>{kDefault.dense},
      "coverage_power"_a = Weight<"coverage_power">{kDefault.coverage_power},
      "next"_a = Weight<"next">{kDefault.next},
      "previous"_a = Weight<"previous">{kDefault.previous},
      "after_question"_a = Weight<"after_question">{kDefault.after_question},
      "second"_a = Weight<"second">{kDefault.second},
      "session"_a = Weight<"session">{kDefault.session},
      "question"_a = Weight<"question">{kDefault.question},
      "time"_a = Weight<"time">{kDefault.time},
      "author"_a = Weight<"author">{kDefault.author},
      "favoured"_a = Weight<"favoured">{kDefault.favoured},
      "reply"_a = Weight<"reply">{kDefault.reply},
      "outside"_a = Weight<"outside">{kDefault.outside});
  // Without this, protocols 0 and 1 would copy an object without its weights.
  bound.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("a Ranking cannot be pickled or copied");
  });
}

}  // namespace vecall::bindings

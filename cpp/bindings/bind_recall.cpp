#include "bind_recall.hpp"

#include <pybind11/stl.h>

#include <cmath>
#include <optional>
#include <type_traits>

#include "casters.hpp"
#include "filters.hpp"
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

using RecallFound = py::typing::Tuple<Found, IdList, FloatList>;

template <class Result>
Result recall(
    const Engine& engine, const Key& key,
    const std::optional<FloatVector<"query">>& query, const TermList<"terms">& terms,
    Count k, std::optional<TimeArg<"now">> now, HashArg<"question_mark"> question_mark,
    HashArg<"time_mark"> time_mark, const TermList<"author_marks">& author_marks,
    const TermList<"favoured_authors">& favoured_authors,
    const std::optional<Ranking>& ranking, bool known_model,
    std::optional<HashArg<"session">> session, std::optional<HashArg<"author">> author,
    std::optional<HashArg<"kind">> kind, std::optional<TimeArg<"after">> after,
    std::optional<TimeArg<"before">> before,
    const std::optional<IdVector<"only">>& only,
    const std::optional<IdVector<"without">>& without,
    const TermList<"without_sessions">& without_sessions,
    std::optional<Real<"min_similarity">> min_similarity, Candidates candidates, Ef ef,
    std::optional<TimeArg<"period_from">> period_from,
    std::optional<TimeArg<"period_until">> period_until,
    HashArg<"dated_mark"> dated_mark) {
  RecallQuery request;
  if (ranking) request.ranking = *ranking;
  thread_local std::vector<float> unit;
  thread_local std::vector<RecallHit> hits;
  hits.clear();
  if (query && normalise_query(query->values, engine.dim(), unit))
    request.unit_vector = unit;
  request.terms = terms.values;
  request.k = k.value;
  request.ef = ef.value;
  request.filter =
      FilterArgs{value_of(session), value_of(author), value_of(kind),
                 value_of(after),   value_of(before), value_of(now),
                 view_of(only),     view_of(without), without_sessions.values}
          .filter();
  if (min_similarity) request.min_similarity = min_similarity->value;
  if (std::isnan(request.min_similarity)) {
    throw InvalidArgumentError("min_similarity: must be a number, not NaN");
  }
  request.features = {question_mark.value, time_mark.value, author_marks.values};
  request.favoured = favoured_authors.values;
  request.known_model = known_model;
  request.candidates = candidates.value;
  if (period_from || period_until) {
    request.period =
        Period{value_of(period_from).value_or(kMinTime),
               value_of(period_until).value_or(kMaxTime), dated_mark.value};
  }
  const RecallSummary summary = with_wait_hook(
      [&](WaitHook hook) { return engine.recall(key.value, request, hits, hook); });
  if constexpr (std::is_same_v<Result, RecallFound>) {
    py::list shared = list_of(numbers_of(summary), std::identity());
    shared.append(hits.empty() ? 0.0F : hits.front().score);
    return py::make_tuple(Found{hits}, ids_of(hits), std::move(shared));
  } else {
    return to_arrays(hits, summary);
  }
}

// The arguments, which both forms share. `of_names` is where those begin that need a
// name.
template <class Result, class... OfNames>
void define(py::class_<Engine>& bound, const char* name, const char* doc,
            const OfNames&... of_names) {
  def_strict(
      bound, name, &recall<Result>, "key"_a, "query"_a, "terms"_a, "k"_a, of_names...,
      "now"_a = py::none(), "question_mark"_a = HashArg<"question_mark">{0},
      "time_mark"_a = HashArg<"time_mark">{0}, "author_marks"_a = py::list(),
      "favoured_authors"_a = py::list(), "ranking"_a = py::none(),
      "known_model"_a = false, "session"_a = py::none(), "author"_a = py::none(),
      "kind"_a = py::none(), "after"_a = py::none(), "before"_a = py::none(),
      "only"_a = py::none(), "without"_a = py::none(),
      "without_sessions"_a = py::list(), "min_similarity"_a = py::none(),
      "candidates"_a = Candidates{50}, "ef"_a = Ef{64}, "period_from"_a = py::none(),
      "period_until"_a = py::none(), "dated_mark"_a = HashArg<"dated_mark">{0}, doc);
}

}  // namespace

void bind_recall(py::module_& module, py::class_<Engine>& bound) {
  py::class_<Found> found(module, "Found", "What Engine.recall_found found.");
  def_strict(
      found, "lists", [](const Found& self) { return to_lists(self.hits); },
      "Returns what recall() does before the summary, as lists.");
  found.def("__reduce_ex__", [](const py::object&, const py::object&) -> py::object {
    throw InvalidTypeError("a Found cannot be pickled or copied");
  });
  define<RecallArrays>(
      bound, "recall",
      R"(Finds the best rows of one partition by words and vector together.

Args:
    key: (app_name, user_id).
    query: float32 (dim,), or None to search by words alone. So does a zero vector.
    terms: Hashed words of the query; may be empty.
    k: At least 1.
    now: Rows that expire at or before this time are not found.
    question_mark: Hash among the words of rows that ask something; 0 for none.
    time_mark: Hash among the words of rows that tell a time, if the query asks for one.
    author_marks: Hashes among the words of rows by the authors that the query names.
    favoured_authors: Hashes of the authors whose rows are favoured.
    ranking: How much each part of a score weighs; None is Ranking().
    known_model: Whether the vectors count in full. Otherwise they count as far as they
        agree with the words, so that a model that knows nothing does no harm.
    session: Only rows of the session with this hash; 0 for those without.
    author: Only rows of the author with this hash.
    kind: Only rows of the kind with this hash.
    after: Only rows at or after this time, in microseconds.
    before: Only rows before this time, in microseconds.
    only: int64 (m,), the ids that may be found; None means all.
    without: int64 (m,), ids that are not found.
    without_sessions: Hashes of sessions whose rows are not found.
    min_similarity: Only rows whose cosine is at least this.
    candidates: How many rows each side proposes, before their neighbours join.
    ef: Breadth of a search of the graph; scans do not use it.
    period_from: Begin of the period that the query names, in microseconds. Rows in it
        come first; if there is none, nothing is found.
    period_until: Its end, which is outside.
    dated_mark: Hash among the words of rows with a time of their own; 0 if all have one.

Returns:
    ids int64, scores float32, cosines float32 (NaN without a vector), BM25 float32,
    parts float32 (n, 6) and a summary float64 (6,), best first. Rows that tie with the
    k-th in score and time follow it. The parts are the share of the query that the row
    covers, then words, vectors, beside, session and factor, of which score = (words +
    vectors + beside + session) * factor. The summary is the best row's share of the
    query, the trust in the vectors, mean and deviation of all cosines, the number of
    rows that passed the filter, and how many of these lie in the period.)",
      py::kw_only());
  define<RecallFound>(bound, "recall_found",
                      R"(As recall(), in a form that is faster for few rows.

Arguments may be given by position, which is faster too.

Returns:
    What was found; the ids; the summary of recall(), and the best score, 0 without hits.)");
}

}  // namespace vecall::bindings

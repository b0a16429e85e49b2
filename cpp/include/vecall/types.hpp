#pragma once

// The values that cross the engine's border. Plain data.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vecall {

using RowId = std::int64_t;      // the caller's number for a row, unique in a partition
using Slot = std::uint32_t;      // where a partition stores a row; reused after removal
using TermHash = std::uint64_t;  // hash of one word in 63 bits, and kPartTerm
using SessionKey = std::uint64_t;  // 64-bit hash of a session name; 0 = no session
using Micros = std::int64_t;       // microseconds since the Unix epoch

inline constexpr Slot kNoSlot = static_cast<Slot>(-1);

// The bit of a term that is a part of a row's words. It counts in no length. In a query
// it makes the term optional: it is looked up as a part and as a word, what is found
// adds to the score by half, and what is not found takes nothing from the coverage.
inline constexpr TermHash kPartTerm = TermHash{1} << 63;

using LabelHash =
    std::uint64_t;  // 64-bit hash of an author's or a kind's name; 0 = none

inline constexpr SessionKey kNoSession = 0;
inline constexpr LabelHash kNoLabel = 0;
inline constexpr Micros kMinTime = std::numeric_limits<Micros>::min();
inline constexpr Micros kMaxTime = std::numeric_limits<Micros>::max();
inline constexpr std::size_t kMaxDim = 65'536;

// How many bits of each value of a vector stay in memory. Scans read 4; what they find
// is scored again from all.
enum class Codec : std::uint8_t { kInt4 = 0, kInt4Plus8 = 1, kInt4Plus8Plus4 = 2 };

// The two names of a partition. Both are compared whole and apart, so ("a", "b/c") and
// ("a/b", "c") are different keys.
struct PartitionKey {
  std::string_view app;
  std::string_view user;

  bool operator==(const PartitionKey&) const = default;
};

// The same with strings of its own.
struct PartitionName {
  std::string app;
  std::string user;
};

struct Hit {
  RowId id;
  float score;  // cosine in [-1, 1]
};

// The columns of a row beside its vector and its words.
struct RowMeta {
  Micros time = 0;            // orders ties and answers time filters
  Micros expires = kMaxTime;  // from this moment on the row is not found
  SessionKey session = kNoSession;
  // Order in the session; neighbours are at most 1 apart. NaN: the row has no place, no
  // neighbours and no share of the session.
  double position = 0;
  LabelHash author = kNoLabel;
  LabelHash kind = kNoLabel;
};

// A row passes when its session, author and kind match, after <= time < before, now <
// expires, its id is in `only` and not in `without`, and its session is not in
// `without_sessions`. The extremes of Micros mean no condition:
// kMinTime of after and now, kMaxTime of before and of a row's expiry.
struct Filter {
  std::optional<SessionKey> session;
  std::optional<LabelHash> author;
  std::optional<LabelHash> kind;
  std::optional<std::span<const RowId>> only;  // borrowed for the call
  // One byte for each live row, in the order of their slots; 0 = may not be found.
  std::optional<std::span<const std::uint8_t>> mask;  // borrowed for the call
  std::span<const RowId> without;                     // borrowed for the call
  std::span<const SessionKey> without_sessions;       // borrowed; kNoSession is ignored
  Micros after = kMinTime;
  Micros before = kMaxTime;
  Micros now = kMinTime;
};

// Rows to add.
struct RowBatch {
  std::vector<RowId> ids;                // (n,); the last of equal ids wins
  std::vector<RowMeta> meta;             // (n,) or empty
  std::vector<TermHash> terms;           // words of all rows, row after row
  std::vector<std::int64_t> offsets;     // (n + 1,) into terms, or empty: no words
  std::span<const float> vectors;        // (n, dim) of any norm, borrowed, or empty
  std::vector<std::uint8_t> has_vector;  // (n,), 0 = none; empty where vectors is
};

// One question to the vectors of a partition.
struct SearchQuery {
  std::span<const float> unit_vector;  // (dim,) of norm 1
  std::size_t k = 10;
  std::size_t ef = 64;  // breadth of an approximate search
  bool exact = false;   // score from float32 vectors where they are stored
  Filter filter;
};

// How much each part of a score weighs; bench/results/recall.md has the measurements.
struct Ranking {
  float dense = 0.4F;           // convex weight of the vector side against the words
  float coverage_power = 0.5F;  // words count by (share of the query they cover)^this
  // Shares of a neighbour's score that a row receives; the largest counts.
  float next = 0.5F;
  float previous = 0.4F;
  float after_question = 0.8F;  // the previous row, where that is a question
  float second = 0.3F;          // two positions away
  float session = 0.15F;        // of the sum of the session's best three
  // Factors on the whole score; 1 changes nothing.
  float question = 0.8F;  // the row is a question itself
  float time = 1.3F;      // the query asks when, and the row tells a time
  float author = 1.2F;    // the query names the row's author
  float favoured = 1.2F;  // the row's author is favoured for every query
  float reply = 0.97F;  // the row answers one of a favoured author that scores as high
  // The row lies outside of the period that the query names; its square root where the
  // row has no time of its own.
  float outside = 0.1F;
};

// Terms that describe a row instead of coming from its text, as the query uses them.
// 0 means that the feature is not used.
struct QueryFeatures {
  TermHash question = 0;              // of rows that ask
  TermHash time = 0;                  // of rows that tell a time, if the query asks one
  std::span<const TermHash> authors;  // of rows by the authors whom the query names
};

// The time that a query names: from <= time < until. Rows in it are proposed, and hold
// it like a word of the query.
struct Period {
  Micros from = kMinTime;
  Micros until = kMaxTime;
  TermHash dated = 0;  // of rows with a time of their own, 0 = all have one
};

// One question to a partition. An empty vector asks by words alone, empty terms by
// vector alone.
struct RecallQuery {
  std::span<const float> unit_vector;  // (dim,) of norm 1, or empty
  std::span<const TermHash> terms;     // repeats count
  QueryFeatures features;
  std::span<const LabelHash> favoured;  // authors
  std::optional<Period> period;         // finds nothing if no row lies in it
  std::size_t k = 5;
  Filter filter;
  float min_similarity = -std::numeric_limits<float>::infinity();  // inclusive
  Ranking ranking;
  bool known_model = false;     // its vectors count in full, whatever the words say
  std::size_t candidates = 50;  // from each side, before their neighbours join
  std::size_t ef = 64;          // breadth of an approximate search
};

// The parts of a score: (words + vectors + beside + session) * factor.
struct ScoreParts {
  float words = 0;
  float vectors = 0;
  float beside = 0;
  float session = 0;
  float factor = 1;
};

struct RecallHit {
  RowId id = 0;
  float score = 0;       // what the hits are ranked by; comparable within one answer
  float similarity = 0;  // cosine, or NaN without a vector
  float lexical = 0;     // BM25
  float covered = 0;     // share of the query's idf that the row's words hold, [0, 1]
  ScoreParts parts;
};

// How the query's cosines are spread over the rows that passed the filter. An index
// that does not look at all rows estimates it from a sample.
struct CosineSpread {
  double mean = 0;
  double deviation = 0;
};

// What the hits of one answer share.
struct RecallSummary {
  float coverage = 0;      // the best row's share of the query's idf, [0, 1]
  float trust = 0;         // how far the vectors were believed, [0, 1]; 0 without any
  CosineSpread spread;     // zeros without a query vector
  std::size_t rows = 0;    // that passed the filter
  std::size_t inside = 0;  // of these, in the query's period
};

}  // namespace vecall

#pragma once

// Links rows into a graph, one at a time. Reads the rows under the partition's shared
// lock; one thread at a time may use it on a graph.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph.hpp"
#include "index/graph_search.hpp"
#include "rows/row_table.hpp"
#include "vectors/row_codes.hpp"

namespace vecall {

class GraphLinker {
 public:
  // Links a slot; one that was linked before, and holds another row now, is taken out
  // first. REQUIRES: the slot has a vector; graph.has_room for it.
  void link(Graph& graph, const RowTable& rows, Slot slot,
            std::uint32_t ef_construction);

 private:
  using Near = GraphSearch::Entry;  // a row, and how near it is to another

  // The links of a row, and what the row estimates of each.
  struct NeighbourList {
    std::span<const Slot> slots;
    std::span<const float> estimates;
  };
  // Rows that were chosen as links.
  struct Chosen {
    std::vector<Near> rows;
    std::size_t diverse = 0;  // from the front, those that no other dominates
  };

  void unlink(Graph& graph, const RowTable& rows, Slot slot);
  // Replaces a link to `lost`, if there is one.
  void repair(Graph& graph, const RowTable& rows, Slot linker, Slot lost, int level,
              std::span<const Slot> candidates);
  // Links a slot, encoded as `query`, to the best of `pool`, and them to it.
  void link_level(Graph& graph, const RowTable& rows, const EncodedQuery& query,
                  const std::vector<Near>& pool, Slot slot, int level);
  // Links `from` to the newcomer, encoded as `query`, if it belongs to the best.
  void link_back(Graph& graph, const RowTable& rows, const EncodedQuery& query,
                 Slot from, Near newcomer, int level);
  // Chooses of `near`, sorted, at most `most` that see the row from different sides.
  void diversify(const RowTable& rows, const std::vector<Near>& near, std::size_t most,
                 Chosen& chosen);
  static void set_links(Graph& graph, Slot slot, int level, const Chosen& chosen);
  // `by_newcomer` is what the newcomer estimates of each of the list.
  static void replace_one(const RowTable& rows, Graph::Link* links,
                          const NeighbourList& list, Near newcomer,
                          std::span<const float> by_newcomer);
  // What a query makes of each of the rows, in `out`, which is resized.
  std::span<const float> estimate(const RowTable& rows, const EncodedQuery& query,
                                  std::span<const Slot> slots, std::vector<float>& out);
  // A row as the query, until the next call.
  const EncodedQuery& as_query(const RowTable& rows, Slot slot);

  // Memory that is used again. Each function fills what it reads; only arguments go
  // from one to another.
  struct {
    GraphSearch search;
    EncodedQuery query;
    std::vector<float> itself;
  } link_;
  struct {
    std::vector<Near> near;
    Chosen chosen;
  } link_level_;
  struct {
    std::vector<Slot> slots;
    std::vector<float> estimates;
    std::vector<float> by_newcomer;
    std::vector<Near> near;
    Chosen chosen;
  } relink_;  // of link_back() and repair()
  struct {
    std::vector<std::uint8_t> dominated;
    std::vector<Slot> others;
    std::vector<float> estimates;
  } diversify_;
  struct {
    std::vector<const std::uint8_t*> codes;
    std::vector<float> factors;
  } estimate_;
  EncodedQuery as_query_;
};

}  // namespace vecall

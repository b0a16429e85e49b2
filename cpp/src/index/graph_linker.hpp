#pragma once

// How the rows of a batch are linked. Reads the rows under the partition's shared lock;
// one a thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph.hpp"
#include "index/graph_search.hpp"
#include "index/link_batch.hpp"
#include "rows/row_table.hpp"
#include "vectors/row_codes.hpp"

namespace vecall {

class GraphLinker {
 public:
  // Takes a slot that holds another row now out of its old place.
  void unlink(Graph& graph, const RowTable& rows, Slot slot);
  // Chooses the links of a row of the batch, on each of its levels.
  void choose(const Graph& graph, const RowTable& rows, std::uint32_t ef_construction,
              std::size_t row, LinkBatch& batch);
  // Links what a row chose to the row, if it belongs to the best there. One thread at a
  // time may change a list.
  void link_back(Graph& graph, const RowTable& rows, const LinkBatch& batch,
                 const LinkBatch::Link& link);

 private:
  using Near = GraphSearch::Entry;  // a row, and how near it is to another

  // The links of a row, and what the row estimates of each.
  struct NeighbourList {
    std::span<const Slot> slots;
    std::span<const float> estimates;
  };
  struct Breadth {
    std::size_t ef;  // rows that links are chosen from
    float copy;      // estimates of rows as good as copies
  };
  // Rows that were chosen as links.
  struct Chosen {
    std::vector<Near> rows;
    std::size_t diverse = 0;  // from the front, those that no other dominates
  };

  // Replaces a link to `lost`, if there is one.
  void repair(Graph& graph, const RowTable& rows, Slot linker, Slot lost, int level,
              std::span<const Slot> candidates);
  // Adds rows of the batch, the first of them, to the rows that a search found, as if
  // it had found these too. `nearness` is how near each of them is.
  void add_of_batch(const RowTable& rows, const LinkBatch& batch, int level,
                    std::span<const float> nearness, const Breadth& breadth,
                    std::vector<Near>& near);
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
    std::vector<float> nearness;
    std::vector<Near> near;
    Chosen chosen;
  } choose_;
  struct {
    std::vector<std::uint32_t> positions;
    std::vector<Near> rows;
  } add_of_batch_;
  struct {
    EncodedQuery query;
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

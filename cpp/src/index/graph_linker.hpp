#pragma once

// Links rows into a graph, one at a time. Reads the rows under the partition's shared
// lock; one thread at a time may use it on a graph.

#include <cstddef>
#include <cstdint>
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
  using Near = GraphSearch::Entry;

  void unlink(Graph& graph, const RowTable& rows, Slot slot);
  void repair(Graph& graph, const RowTable& rows, Slot linker, Slot lost, int level,
              const Slot* candidates, std::size_t candidate_count);
  void link_level(Graph& graph, const RowTable& rows, Slot slot, int level);
  void link_back(Graph& graph, const RowTable& rows, Slot from, Slot to, float estimate,
                 int level);
  // Keeps of `near_`, sorted, at most `most` that see the row from different sides.
  void diversify(const RowTable& rows, std::size_t most);
  void set_chosen(Graph& graph, Slot slot, int level);
  void replace_one(const RowTable& rows, Graph::Link* links, Slot to, float estimate);
  void estimate_by(const EncodedQuery& query, const RowTable& rows,
                   const std::vector<Slot>& others, std::vector<float>& estimates);
  [[nodiscard]] float estimate_of(const RowTable& rows, Slot slot) const noexcept;
  void estimate_from(const RowTable& rows, Slot slot, const std::vector<Slot>& others,
                     std::vector<float>& estimates);

  GraphSearch search_;
  EncodedQuery query_;
  EncodedQuery other_;
  std::vector<Near> near_;
  std::vector<Near> chosen_;
  std::size_t diverse_ = 0;  // of them, from the front, those that no other dominates
  std::vector<float> near_new_;
  std::vector<std::uint8_t> dominated_;
  std::vector<Slot> slots_;
  std::vector<Slot> list_;
  std::vector<Slot> second_;
  std::vector<const std::uint8_t*> codes_;
  std::vector<float> factors_;
  std::vector<float> estimates_;
};

}  // namespace vecall

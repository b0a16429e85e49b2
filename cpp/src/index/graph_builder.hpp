#pragma once

// A graph of all rows that is built slot by slot while searches do without it. Slots
// below a cursor are in the graph; those of them that get another row before the graph
// is whole are stale: they have a place in it, and are to be linked again.
//
// Thread safety: const methods and link_next() need the partition's lock shared, the
// others unique. Only one thread builds.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/graph.hpp"
#include "index/graph_linker.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class GraphBuilder {
 public:
  // A whole graph, and its slots that got another row since they were linked. A slot
  // may be there more than once, and its row may be gone.
  struct Built {
    std::unique_ptr<Graph> graph;
    std::vector<Slot> stale;
  };

  // True from begin() to finish().
  [[nodiscard]] bool is_building() const noexcept { return graph_ != nullptr; }
  // Begins an empty graph with `m` links a row on its upper levels.
  void begin(std::uint32_t m);

  // Makes room for `more` rows; on_vector() cannot fail afterwards.
  void reserve(std::size_t more);
  // A slot got a row. REQUIRES: reserved.
  void on_vector(Slot slot) noexcept;
  // REQUIRES: the row's codes are still in its slot.
  void on_remove(Slot slot, const RowTable& rows) noexcept;

  // REQUIRES for the rest: is_building().
  // Makes room for `most` calls of link_next().
  void begin_slice(const RowTable& rows, std::size_t most);
  // Links the next row. False at the end of the rows, and of the graph's room.
  bool link_next(const RowTable& rows, GraphLinker& linker,
                 std::uint32_t ef_construction);
  // Lets searches begin at the rows that were linked; true if the graph is whole.
  // REQUIRES: no more rows than begin_slice() made room for.
  bool end_slice(const RowTable& rows) noexcept;
  // Gives the graph away. REQUIRES: end_slice() said that it is whole, under the same
  // hold of the lock. Strong guarantee.
  Built finish(const RowTable& rows);

  // Stale slots that finish() would return.
  [[nodiscard]] std::size_t stale() const noexcept { return stale_.size(); }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  std::unique_ptr<Graph> graph_;  // null while none is built
  Slot cursor_ = 0;               // graph_ has the slots below
  Slot entered_ = 0;              // of them, those below were made entrances
  std::vector<Slot> stale_;       // slots below cursor_ that hold another row since
};

}  // namespace vecall

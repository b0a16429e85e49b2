#pragma once

// A graph of all rows that is built slice by slice while searches do without it. Slots
// below a cursor are in the graph or in the slice; those of them that get another row
// before the graph is whole are stale: they have a place in it, and are to be linked
// again.
//
// Thread safety: const methods need the partition's lock shared, the others unique.
// Only one thread builds.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/graph.hpp"
#include "index/link_batch.hpp"
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
  [[nodiscard]] Graph& graph() noexcept { return *graph_; }
  // Begins a batch of the next rows, at most `most`. Strong guarantee.
  void begin_slice(const RowTable& rows, std::size_t most, LinkBatch& batch);
  // Lets searches begin at slots of the slice, at most `most`; true once all are
  // through. REQUIRES: the batch is linked.
  bool end_slice(const RowTable& rows, std::size_t most) noexcept;
  // True if a slice that ended was the last.
  [[nodiscard]] bool is_whole(const RowTable& rows) const noexcept {
    return entered_ >= rows.slots();
  }
  // Gives the graph away. REQUIRES: it is whole. Strong guarantee.
  Built finish(const RowTable& rows);

  // Stale slots that finish() would return.
  [[nodiscard]] std::size_t stale() const noexcept { return stale_.size(); }
  [[nodiscard]] std::size_t nbytes() const noexcept;

 private:
  std::unique_ptr<Graph> graph_;  // null while none is built
  Slot cursor_ = 0;               // graph_ has the slots below, or gets them now
  Slot entered_ = 0;              // of them, those below were made entrances
  std::vector<Slot> stale_;       // slots below cursor_ that hold another row since
};

}  // namespace vecall

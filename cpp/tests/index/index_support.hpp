#pragma once

// What the tests of the graph share: rows with vectors, by slot.

#include <cstdint>
#include <vector>

#include "engine_support.hpp"
#include "index/graph_linker.hpp"
#include "index/link_batch.hpp"
#include "rows/row_space.hpp"
#include "rows/row_table.hpp"
#include "vectors/encoded_rows.hpp"

namespace vecall::testing {

// A table whose rows hold the vectors of unit_vector().
class VectorRows {
 public:
  explicit VectorRows(std::size_t dim)
      : space_(dim, Codec::kInt4Plus8, false), rows_(space_) {}

  // Takes the next free slot.
  Slot add(std::uint64_t number) { return add(number, unit_vector(number, dim())); }
  Slot add(std::uint64_t number, const Vector& vector) {
    rows_.reserve(1, false, false);
    const Slot slot = rows_.allocate(static_cast<RowId>(number));
    rows_.publish(slot);
    const std::uint8_t wanted[] = {1};
    const EncodedRows one(space_, vector, wanted);
    rows_.put_codes(slot, one.codes(0));
    rows_.show_vector(slot);
    return slot;
  }
  Slot add_without_vector(std::uint64_t number) {
    rows_.reserve(1, false, false);
    const Slot slot = rows_.allocate(static_cast<RowId>(number));
    rows_.publish(slot);
    return slot;
  }
  [[nodiscard]] std::size_t dim() const noexcept { return space_.dim(); }
  [[nodiscard]] RowTable& table() noexcept { return rows_; }
  [[nodiscard]] const RowSpace& space() const noexcept { return space_; }

 private:
  RowSpace space_;
  RowTable rows_;
};

// Links the rows of a batch that was begun, the parts of each step in their order or
// the other way round.
inline void link_batch(LinkBatch& batch, Graph& graph, const RowTable& rows,
                       GraphLinker& linker, std::uint32_t ef_construction,
                       bool backwards = false) {
  while (!batch.is_linked()) {
    for (std::size_t at = 0; at < batch.parts(); ++at) {
      const std::size_t part = backwards ? batch.parts() - 1 - at : at;
      batch.do_part(part, graph, rows, linker, ef_construction);
    }
    batch.next_step(graph);
  }
}

}  // namespace vecall::testing

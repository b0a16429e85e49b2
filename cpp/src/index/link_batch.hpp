#pragma once

// Rows that are linked into a graph together, in the manner of ParlayANN (Manohar et
// al., "ParlayANN: Scalable and Deterministic Parallel Graph-Based Approximate Nearest
// Neighbor Search Algorithms", 2024): the links of each are chosen from the graph as it
// is without them and from the rows of the batch before it; then the rows that were
// chosen are linked back. The parts of a step change nothing that its other parts read,
// so the graph does not depend on who does them, nor in which order.
//
// Thread safety: the parts of one step may be done at once by several threads under the
// partition's shared lock; for all else one thread uses a batch at a time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/graph.hpp"
#include "rows/row_table.hpp"
#include "vecall/types.hpp"

namespace vecall {

class GraphLinker;

class LinkBatch {
 public:
  // What a row chose: a slot, with or without Graph::kDominated, and how near it is.
  struct Link {
    Slot chosen;
    float estimate;
    std::uint32_t row;  // of the batch
    int level;
  };

  // Begins to link the slots, each of them there once, and makes room for them. Strong
  // guarantee.
  void begin(Graph& graph, const RowTable& rows, std::span<const Slot> slots);

  // True once the rows are linked.
  [[nodiscard]] bool is_linked() const noexcept { return step_ == Step::kLinked; }
  [[nodiscard]] std::size_t parts() const noexcept { return slots_.size(); }
  // The first part of the step that is not done, or parts().
  [[nodiscard]] std::size_t next_part() noexcept;
  [[nodiscard]] bool is_done(std::size_t part) const noexcept {
    return done_[part] != 0;
  }
  // Whether several threads may do the parts of this step.
  [[nodiscard]] bool is_parallel() const noexcept { return step_ != Step::kTake; }
  // One that fails may be done again.
  void do_part(std::size_t part, Graph& graph, const RowTable& rows,
               GraphLinker& linker, std::uint32_t ef_construction);
  // REQUIRES: all parts are done; the partition's lock shared.
  void next_step(Graph& graph) noexcept;

  // For the linker. How many lists the row gets: 0 if it is none.
  [[nodiscard]] int height(std::size_t row) const noexcept { return heights_[row]; }
  [[nodiscard]] Slot slot(std::size_t row) const noexcept { return slots_[row]; }
  // Of row after row, as they were taken.
  [[nodiscard]] const std::uint8_t* codes(std::size_t row) const noexcept {
    return reinterpret_cast<const std::uint8_t*>(codes_.data()) + row * row_bytes_;
  }
  [[nodiscard]] const float* factors() const noexcept { return factors_.data(); }
  // True of a slot of the batch that links may still lead to from its old place.
  [[nodiscard]] bool is_relinked(Slot slot) const noexcept;
  // Takes a link of a row, on its highest level first.
  void choose(const Link& link) noexcept;

 private:
  enum class Step { kTake, kChoose, kLinkBack, kLinked };
  struct alignas(64) Line {
    std::uint8_t bytes[64];
  };

  void take(std::size_t row, Graph& graph, const RowTable& rows, GraphLinker& linker);
  // Gives the rows the links that they chose.
  void set_links(Graph& graph) noexcept;
  // Sorts the links into as many groups as there are rows, all of a slot in one, those
  // of the first row first.
  void group_links() noexcept;
  [[nodiscard]] std::size_t group_of(const Link& link) const noexcept;
  [[nodiscard]] std::span<const Link> links_of(std::size_t row) const noexcept {
    return {links_.data() + first_link_[row], link_count_[row]};
  }

  Step step_ = Step::kLinked;
  std::vector<std::uint8_t> done_;  // parts of the step
  std::size_t next_part_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint8_t> heights_;
  std::size_t row_bytes_ = 0;
  std::vector<Line> codes_;
  std::vector<float> factors_;
  std::vector<Slot> relinked_;
  std::vector<Link> links_;  // with room for all that a row may choose
  std::vector<std::size_t> first_link_;
  std::vector<std::size_t> link_count_;
  std::vector<Link> grouped_;
  std::vector<std::size_t> group_end_;
};

}  // namespace vecall

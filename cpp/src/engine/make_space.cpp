#include "engine/make_space.hpp"

#include "kernels/dispatch.hpp"
#include "vecall/errors.hpp"

namespace vecall {

Ref<const PartitionSpace> make_space(std::size_t dim, const Options& options) {
  if (dim > kMaxDim) throw LimitExceededError("dim: must be at most 65536");
  const GraphOptions& graph = options.graph;
  if (graph.m < kLeastLinks || graph.m > kMostLinks) {
    throw InvalidArgumentError("m: must be at least 2 and at most 256");
  }
  if (graph.ef_construction < 1 || graph.ef_construction > kMostBreadth) {
    throw InvalidArgumentError(
        "ef_construction: must be at least 1 and at most 100000");
  }
  kernels::active();  // throws where VECALL_ISA cannot run here
  return make_ref<const PartitionSpace>(dim, options);
}

}  // namespace vecall
